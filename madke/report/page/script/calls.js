// Prompts and raw replies of a debate, read from the page's data when they are opened.

const ROLE_WORDS = { system: "System", user: "User", assistant: "Assistant" };
const FIELDS = ["stage", "agent", "round", "model", "messages", "reply", "outcome"];

const callRecords = (record) =>
  (record.calls ?? []).map((call) => Object.fromEntries(FIELDS.map((name, n) => [name, call[n]])));

/** A part that opens the prompts and raw replies of the calls that `wanted` takes; null if the page has none. */
function callsPart(record, wanted) {
  const calls = callRecords(record).filter(wanted);
  if (calls.length === 0) return null;
  calls.sort((one, other) => (other.stage === "select") - (one.stage === "select"));
  const title = calls.length === 1 ? "Prompt and raw reply" : `Prompts and raw replies of ${plural(calls.length, "call")}`;
  const place = el("div", { class: "calls" });
  const fill = async () => {
    if (part.open && !place.hasChildNodes()) place.replaceChildren(...(await Promise.all(calls.map(callView))));
  };
  const part = el("details", { class: "folded", toggle: fill }, el("summary", {}, title), place);
  return part;
}

async function callView({ stage, model, messages, reply, outcome: came }) {
  const texts = await Promise.all([...messages.map(([, text]) => text), reply].map((text) => stored("prompts", text)));
  const said = texts.pop();
  const message = ([role], n) => [el("h5", {}, ROLE_WORDS[role] ?? role), prose(texts[n], "message") ?? el("p", {}, "–")];
  return el(
    "section",
    { class: "call" },
    el("p", { class: "facts" }, `${stage} · ${model}`),
    messages.map(message),
    el("h5", { class: "raw" }, came === "ok" ? "Raw reply" : `Raw reply (${came})`),
    prose(said, came === "ok" ? "message raw" : "message raw error") ?? el("p", {}, "–"),
  );
}

const ofTurn = (round, turn) => (call) => call.round === round.n && call.agent === turn.agent;
const ofVerdict = (round) => (call) => call.round === round.n && call.stage === "judge";
const CONCLUDING = ["summarize", "pick"];
const ofFinal = (call) => CONCLUDING.includes(call.stage);
