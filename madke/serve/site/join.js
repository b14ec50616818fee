// A person as a debater: the form for each part of a turn.

const TASKS = {
  select: "choose the passages that help you",
  answer: "give your answer",
  verdict: "do all debaters give the same answer?",
  free: "write your reply",
};
const CLAIM = ["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"];

/** Show the form, with the question of the debate. `send` sends what the person gives; it throws Refused with a word to the person if that cannot be read. */
function showTurn(asked, question, send) {
  const form = byId("turn");
  const wrong = el("p", { class: "error", role: "alert" });
  const button = el("button", { class: "main" }, asked.kind === "select" ? "Choose" : "Send");
  const title = el("h3", { tabindex: "-1", id: "turn-title" }, `Round ${asked.round}, your turn: ${TASKS[asked.kind]}`);
  fill(
    form,
    title,
    el("p", { class: "question", dir: "auto" }, question),
    el("p", { class: "note" }, `You are ${asked.agent}.`),
    asked.role.map((text) => prose(text)),
    remarks(asked),
    PARTS[asked.kind](asked),
    wrong,
    el("p", { class: "buttons" }, button, asked.kind === "answer" && unknownButton()),
  );
  form.onsubmit = async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    button.disabled = true;
    try {
      await send({ turn: asked.turn, ...readTurn(form, asked, event.submitter) });
      hideTurn(asked.turn);
    } catch (error) {
      wrong.textContent = printable(error.message);
    }
    button.disabled = false;
  };
  form.dataset.turn = asked.turn;
  form.setAttribute("aria-labelledby", title.id);
  form.hidden = false;
  title.focus({ preventScroll: true });
  form.scrollIntoView({ block: "nearest" });
}

/** Hide the form, or that of this turn only. */
function hideTurn(turn = null) {
  const form = byId("turn");
  if (turn !== null && form.dataset.turn !== String(turn)) return;
  const focused = form.contains(document.activeElement);
  form.hidden = true;
  form.replaceChildren();
  if (focused) byId("asked").focus({ preventScroll: true });
}

/** What the others said, as this debater reads it. */
function remarks({ remarks, kind }) {
  if (remarks.length === 0 || kind === "free") return null;
  const one = ({ who, text }) => el("li", {}, agentName(who), prose(text));
  return el("details", { class: "folded" }, el("summary", {}, "What you read of the others"), el("ul", {}, remarks.map(one)));
}

const PARTS = {
  select({ knowledge, limit, search }) {
    const one = ({ n, title, text }) =>
      el(
        "li",
        {},
        el("label", {}, el("input", { type: "checkbox", name: "numbers", value: n }), el("span", { class: "number" }, `[${n}]`), el("span", { class: "title", dir: "auto" }, title || "untitled")),
        clamped(text),
      );
    const count = el("span", { class: "facts", role: "status" }, `Up to ${plural(limit, "passage")}.`);
    const list = el("ol", { class: "ticks" }, knowledge.map(one));
    list.addEventListener("change", () => {
      const ticked = list.querySelectorAll(":checked").length;
      count.textContent = `${ticked} of up to ${limit} chosen.`;
      for (const box of list.querySelectorAll("input:not(:checked)")) box.disabled = ticked >= limit;
    });
    const query = search && el("label", {}, "Search for (optional)", el("input", { name: "query", autocomplete: "off" }));
    return [knowledge.length > 0 ? [count, list] : el("p", { class: "note" }, "There are no passages yet."), query];
  },
  answer({ form, options, knowledge }) {
    const radio = (value, ...words) => el("label", {}, el("input", { type: "radio", name: "answer", value }), ...words);
    const choices = form === "choice" ? options : form === "claim" ? CLAIM.map((value) => [value, null]) : null;
    const given = choices
      ? el("fieldset", { class: "radios" }, el("legend", {}, "Answer"), choices.map(([value, text]) => radio(value, el("b", {}, value), text)))
      : el("label", {}, "Answer", el("input", { name: "answer", autocomplete: "off", dir: "auto" }));
    const chosen = knowledge.length > 0 && el("p", { class: "note" }, `You chose passages ${ids(knowledge.map(({ n }) => n))}.`);
    const why = el("label", {}, "Reasons, for the others", el("textarea", { name: "reasons", rows: "4", dir: "auto" }));
    return [chosen, given, why];
  },
  verdict() {
    const radio = (value, text) => el("label", {}, el("input", { type: "radio", name: "same", value, required: true }), text);
    return el("fieldset", { class: "radios" }, radio("yes", "The same"), radio("no", "Different"));
  },
  free({ messages }) {
    const parts = messages.map(({ role, content }) => folded(role === "assistant" ? "You said" : role, content));
    parts.at(-1)?.setAttribute("open", "");
    return [parts, el("label", {}, "Reply", el("textarea", { name: "text", rows: "6", dir: "auto", required: true }))];
  },
};

const unknownButton = () => el("button", { name: "unknown" }, "I do not know");

/** What the form holds. */
function readTurn(form, { kind }, submitter) {
  const data = new FormData(form);
  const text = (name) => String(data.get(name) ?? "");
  if (kind === "select") return { numbers: data.getAll("numbers").map(Number), query: text("query") };
  if (kind === "answer") return { answer: submitter?.name === "unknown" ? "-" : text("answer"), reasons: text("reasons") };
  if (kind === "verdict") return { same: data.get("same") === "yes" };
  return { text: text("text") };
}
