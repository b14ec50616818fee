// The views: the question, the debate that goes on, the transcript of one that has ended.

const views = { key: byId("key"), ask: byId("ask"), debate: byId("debate") };
const controls = { cancel: byId("cancel"), again: byId("again"), new: byId("new") };
let choices = null;
let asked = null; // The question and its settings, as sent.
let stop = null; // Ends the debate that goes on.
let shown = location.pathname; // The page whose view is shown.

function show(name, ...also) {
  for (const [each, view] of Object.entries(views)) view.hidden = each !== name;
  for (const [each, control] of Object.entries(controls)) control.hidden = !also.includes(each);
}

function say(text, error = false) {
  fill(byId("state"), text);
  byId("state").classList.toggle("error", error);
  byId("state").classList.remove("split");
}

/** What is debated, by which protocol and models. */
function titled(question, protocol, models = []) {
  fill(byId("asked"), question);
  fill(byId("by"), [protocol, ...models].filter(Boolean).map((name) => el("span", { class: "chip", dir: "auto" }, name)));
  byId("asked").classList.toggle("long", question.length > 200);
  document.title = printable(`${question} · madke`);
}

/** The answer; of a debate that ended split, every answer with those who support it. */
function sayAnswer(record) {
  const { answer, agreement } = record;
  const split = isSplit(record) && agreement.positions?.length > 0;
  byId("state").classList.toggle("split", split);
  const label = el("span", { class: "label" }, split ? "No consensus" : "Answer");
  const side = (one) => el("span", { class: "side" }, el("span", { dir: "auto" }, one.answer), ` (${one.supporters.join(", ")})`);
  if (record.deferral) fill(byId("state"), el("span", { class: "label" }, "Deferred"), record.deferral.reason);
  else if (split) fill(byId("state"), label, agreement.positions.map(side));
  else fill(byId("state"), label, answer == null ? "none" : el("span", { class: "answer", dir: "auto" }, answer));
}

/** Show what can be asked, or ask for the key. */
async function begin() {
  try {
    choices = await (await ask("/page/choices")).json();
  } catch (error) {
    if (error.status !== 401) return failed(error);
    byId("key-wrong").textContent = keptKey() ? "The server does not know this key." : "";
    show("key");
    byId("key-value").focus();
    return;
  }
  const option = ({ name }) => el("option", { value: name }, name);
  fill(byId("protocol"), choices.map(option));
  if (choices.some(({ name }) => name === "madke")) byId("protocol").value = "madke";
  adapt();
  const before = history.state?.asked;
  if (choices.some(({ name }) => name === before?.protocol)) return reloaded(before);
  showForm();
}

function showForm() {
  document.title = "madke";
  show("ask");
  byId("question").focus();
}

/** A reload ended the debate of this page: its calls are kept, so it can go on. */
function reloaded(question) {
  asked = question;
  byId("question").value = asked.question;
  titled(asked.question, asked.protocol);
  show("debate", "again", "new");
  say("The page was loaded again. Calls that had finished are kept.");
  controls.again.focus({ preventScroll: true });
}

function failed(error) {
  titled("This page does not work now");
  show("debate", "new");
  say(sentence(error.message), true);
}

/** The sources of the chosen protocol. */
function adapt() {
  const { sources, models, examples } = choices.find(({ name }) => name === byId("protocol").value);
  fill(byId("models"), `Answered by ${models.join(", ")}.`);
  fill(byId("examples"), "For example: ", examples.map(exampleButton));
  byId("examples").hidden = examples.length === 0;
  const box = (name) =>
    el("label", {}, el("input", { type: "checkbox", value: name, checked: true }), el("span", { dir: "auto" }, name));
  const none = el("span", { class: "note" }, "none");
  fill(byId("sources"), byId("sources").firstElementChild, sources.length ? sources.map(box) : none);
}

const exampleButton = (question) => {
  const button = el("button", { type: "button", class: "link" }, question);
  button.addEventListener("click", () => {
    byId("question").value = question;
    byId("question").focus();
  });
  return button;
};

views.key.addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey(byId("key-value").value.trim());
  byId("key-value").value = "";
  begin();
});

views.ask.addEventListener("submit", (event) => {
  event.preventDefault();
  const ticked = [...byId("sources").querySelectorAll(":checked")].map((box) => box.value);
  asked = {
    protocol: byId("protocol").value,
    question: byId("question").value.trim(),
    instructions: byId("instructions").value.trim(),
    sources: ticked,
  };
  byId("ask-wrong").textContent = asked.question ? "" : "Write a question first.";
  if (asked.question) debateNow(false);
  else byId("question").focus();
});

for (const area of [byId("question"), byId("instructions")]) {
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) views.ask.requestSubmit();
  });
}

byId("protocol").addEventListener("change", adapt);
controls.cancel.addEventListener("click", () => stop.abort());
controls.again.addEventListener("click", () => debateNow(true));
controls.new.addEventListener("click", async () => {
  if (shown === "/") history.replaceState(null, "");
  else goTo("/");
  if (!choices) return begin();
  showForm();
  byId("question").select();
});
addEventListener("keydown", (event) => event.key === "Escape" && closePassage() && event.preventDefault());

/** Debate what was asked; with `retry`, go on with a debate that was cancelled or lost. */
async function debateNow(retry) {
  const { debaters, models } = choices.find(({ name }) => name === asked.protocol);
  const live = new Live(asked.question, debaters);
  stop = new AbortController();
  history.replaceState({ asked }, "");
  titled(asked.question, asked.protocol, models);
  show("debate", "cancel");
  say("Waits for a free place and searches the sources.");
  byId("asked").focus({ preventScroll: true });
  scrollTo(0, 0);
  let ended = false;
  try {
    const response = await ask("/page/debates", { ...asked, retry }, { signal: stop.signal });
    for await (const event of eventsIn(response)) ended = heard(event, live) || ended;
    if (!ended) throw new Error("The stream ended early.");
  } catch (error) {
    if (error.status === 401) return begin();
    if (stop.signal.reason === LEFT) return live.leave();
    if (stop.signal.aborted) say("Cancelled. Calls under way finish and are kept.");
    else say(error instanceof Refused ? sentence(error.message) : "The connection was lost.", true);
    show("debate", "again", "new");
    controls.again.focus({ preventScroll: true });
  }
  live.stop();
}

const LEFT = "The reader went to another page.";

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

/** Take in one event. Return whether the debate has ended. */
function heard(event, live) {
  if (event.error) throw new Refused(null, event.error.message);
  live.hear(event);
  switch (event.event) {
    case "Ended":
      sayAnswer(live.part.record);
      history.replaceState(null, "");
      goTo(pathOf(event.transcript));
      show("debate", "new");
      return true;
    default:
      if (inWords(event) !== null) say(inWords(event));
      return false;
  }
}

/** The path of an address of this server: only that can be opened here, also behind a proxy. */
const pathOf = (address) => new URL(address).pathname + new URL(address).search;

/** The transcript at this page's address, with the passage that the address names. */
async function showTranscript() {
  let record = null;
  const place = shown;
  try {
    record = await (await ask(location.pathname + location.search)).json();
  } catch (error) {
    return shown === place && failed(error);
  }
  if (shown !== place) return; // The reader has gone on.
  record = { ...emptyRecord(record.question), ...record };
  titled(record.question, record.protocol, record.models);
  show("debate", "new");
  sayAnswer(record);
  const part = { run: { name: "" }, record };
  fill(byId("strip"), stripPart(record), questionPart(record));
  fill(byId("live"), debateView(part));
  showPassage();
}

/** Show the passage whose number is the address's fragment, as citations have it. */
function showPassage() {
  const number = `[${location.hash.slice(1)}]`;
  const found = [...document.querySelectorAll("#pool li")].find((each) => each.firstElementChild.textContent === number);
  if (!found) return;
  if (getComputedStyle(byId("pool")).position === "fixed") byId("pool").showPopover();
  found.classList.add("named");
  found.querySelector("[aria-expanded=false]")?.click();
  found.scrollIntoView({ block: "center" });
}

/** Put an address of this server into the address bar, as a page of its own. */
function goTo(path) {
  history.pushState(null, "", path);
  shown = location.pathname;
}

/** The view of this page's address. */
const viewOfAddress = () => (location.pathname.startsWith("/debates/") ? showTranscript() : begin());

addEventListener("hashchange", showPassage);
addEventListener("popstate", () => {
  if (location.pathname === shown) return; // Only the passage in the address has changed.
  shown = location.pathname;
  stop?.abort(LEFT);
  byId("live").replaceChildren();
  byId("strip").replaceChildren();
  viewOfAddress();
});
await viewOfAddress();
document.documentElement.classList.add("ready");
