// The pool of a debate, and its passages inside replies.
// A part is a debate: { run, record, passages }, with its passages by number.

/** The passages of a debate by number, each with the rounds in which debaters selected it. */
function passagesOf({ record }) {
  const found = (record.pool ?? []).map((entry, place) => {
    const by = new Map();
    for (const round of record.rounds) {
      for (const { agent, selection } of round.turns) {
        if (selection?.ids?.includes(entry.n)) by.set(agent, [...(by.get(agent) ?? []), round.n]);
      }
    }
    return [entry.n, { entry, text: record.texts[place] ?? null, gold: record.gold.includes(entry.n), by }];
  });
  return new Map(found);
}

/** The pool next to the rounds; on a narrow screen a drawer, with the button that opens it. */
function poolPart(part) {
  const { record } = part;
  part.passages = passagesOf(part);
  const passages = [...part.passages.values()];
  const failed = Object.entries(record.pool_partial ?? {}).map(([source, why]) => `${source} failed: ${why}`);
  const filed = passages.filter(({ entry }) => !entry.asked_by); // the file has no passages of debaters' own searches
  const without = filed.length > 0 && filed.every(({ text }) => text === null);
  const lost = without && "The pool file of this run is missing or has changed, so only titles are shown.";
  const notes = [lost, ...failed].filter(Boolean);
  if (passages.length === 0 && notes.length === 0) return null;
  const chosen = passages.filter(({ by }) => by.size > 0).length;
  const gold = passages.filter((passage) => passage.gold).length;
  const asked = record.rounds.some((round) => round.turns.some((turn) => turn.selection));
  const facts = [plural(passages.length, "passage"), asked && `${chosen} chosen`, gold && `${gold} gold`];
  const counts = facts.filter(Boolean).join(", ");
  const close = el("button", { class: "quiet shut", type: "button", popovertarget: "pool" }, "close");
  const toggle = (event) => event.newState === "open" && close.focus();
  return [
    el("button", { class: "drawer", type: "button", popovertarget: "pool" }, `Pool: ${counts}`),
    el(
      "aside",
      { id: "pool", class: "pool", popover: "auto", tabindex: "0", "aria-label": "Pool", toggle },
      el("header", {}, el("h3", {}, "Pool"), el("span", { class: "facts" }, counts), close),
      notes.map((note) => el("p", { class: "note" }, note)),
      el("ol", {}, passages.map((passage) => el("li", { class: kindOf(passage) }, passagePart(passage)))),
    ),
  ];
}

const kindOf = ({ gold, by }) => ["passage", by.size > 0 && "chosen", gold && "gold"].filter(Boolean).join(" ");

/** What is shown of a passage: its number, title, origin, who selected it, and its text. */
function passagePart({ entry, text, gold, by }, whole = false) {
  const [words, url, date] = text ?? [null, null, null];
  const link = url ?? (/^https?:/.test(entry.key) ? entry.key : null);
  const origin = [
    gold && el("span", { class: "badge" }, "★ gold"),
    el("span", { class: "source" }, entry.source),
    link ? webLink(link) : el("span", { class: "key" }, entry.key),
    date && el("span", {}, date),
    entry.asked_by &&
      el("span", {}, `found by ${entry.asked_by} in round ${entry.round}, searching for “${entry.query}”`),
  ];
  const when = (rounds) => `${rounds.length > 1 ? "rounds" : "round"} ${rounds.join(", ")}`;
  const chips = inOrder(by.keys()).map((agent) =>
    el("span", { class: "chip" }, agentName(agent), el("span", {}, when(by.get(agent)))),
  );
  return [
    el("span", { class: "number" }, `[${entry.n}]`),
    el("p", { class: "title", dir: "auto" }, entry.title || "untitled"),
    el("p", { class: "origin" }, origin),
    by.size > 0 && el("p", { class: "chips" }, el("span", { class: "unseen" }, "chosen by "), chips),
    whole && words ? paragraph(words, "text") : clamped(words),
  ];
}

/** A passage's text: its first lines, with a button for the rest. */
function clamped(words) {
  if (!words) return null;
  const text = paragraph(words, "text");
  if (words.length < 300) return text;
  text.classList.add("clamped");
  return [text, moreButton((open) => text.classList.toggle("clamped", !open))];
}

const CITED = /\[\d+(?:\s*[,;–-]\s*\d+)*\]|\b(?:knowledge|passage|document)s? \d+/giu;

/** A line of a reply: each number of a passage opens that passage. `[7]` is no number of a passage if it is the answer. */
function cited(line, part, answer) {
  const nodes = [];
  let from = 0;
  for (const found of line.matchAll(CITED)) {
    if (found[0] === `[${answer}]`) continue;
    for (const digits of found[0].matchAll(/\d+/g)) {
      if (!part.passages.has(Number(digits[0]))) continue;
      let start = found.index + digits.index;
      let end = start + digits[0].length;
      if (line[start - 1] === "[" && line[end] === "]") [start, end] = [start - 1, end + 1];
      nodes.push(line.slice(from, start), numberButton(part, Number(digits[0]), line.slice(start, end)));
      from = end;
    }
  }
  return [...nodes, line.slice(from)];
}

let cards = []; // Functions that close the passages opened inside replies, with their elements; the last one opened last.

/** The number of a passage. It opens the passage below its line, and closes it again. */
function numberButton(part, n, label = `[${n}]`) {
  const passage = part.passages.get(n);
  if (!passage) return label;
  let card = null;
  const close = () => {
    card.remove();
    cards = cards.filter((each) => each.card !== card);
    card = null;
    button.setAttribute("aria-expanded", "false");
    button.focus({ preventScroll: true });
  };
  const open = () => {
    const passage = part.passages.get(n); // Of a debate that goes on, others may have chosen it since.
    card = el(
      "div",
      { class: `${kindOf(passage)} here`, role: "group", tabindex: "-1", "aria-label": `Passage ${n}` },
      passagePart(passage, true),
      el("button", { class: "quiet shut", type: "button", click: close }, "close"),
    );
    cards.push({ card, button, close });
    button.closest(".line").after(card);
    button.setAttribute("aria-expanded", "true");
    card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "nearest" });
  };
  const title = `Passage ${n}: ${passage.entry.title || "untitled"}`;
  const toggle = () => (card ? close() : open());
  const button = el("button", { type: "button", class: "pick", title, "aria-expanded": "false", click: toggle }, label);
  return button;
}

/** Close the passage at the focus, or the last one opened, or else the drawer. Return whether there was one. */
function closePassage() {
  cards = cards.filter(({ card }) => card.isConnected);
  const focused = document.activeElement;
  const here = cards.find(({ card, button }) => card.contains(focused) || button === focused) ?? cards.at(-1);
  const drawer = document.querySelector(".pool:popover-open");
  if (drawer) drawer.hidePopover();
  else here?.close();
  return Boolean(drawer ?? here);
}
