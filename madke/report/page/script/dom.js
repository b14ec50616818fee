// Elements and words. Data of a run is untrusted: it becomes text nodes and attribute values, never markup.

const CONTROL = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}]/gu;

/** The text without control and formatting characters (bidi overrides, escapes), except newlines and tabs. */
const printable = (text) => String(text).replace(CONTROL, (c) => (c === "\n" || c === "\t" ? c : ""));

/** An element. Children are nodes, texts and lists of them; null, false and "" are skipped. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : printable(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : printable(child));
  }
  return node;
}

const byId = (id) => document.getElementById(id);
const figures = new Intl.NumberFormat("en");
const figure = (number) => figures.format(number);
const plural = (number, noun) => `${figure(number)} ${noun}${number === 1 ? "" : "s"}`;
const ids = (numbers) => numbers.map((n) => `[${n}]`).join(" ");

/** A link to a web page; plain text for other kinds of URLs. */
function webLink(url) {
  let address = null;
  try {
    address = new URL(url);
  } catch {
    return el("span", {}, url);
  }
  if (address.protocol !== "https:" && address.protocol !== "http:") return el("span", {}, url);
  const attributes = { href: address.href, target: "_blank", rel: "noopener noreferrer nofollow" };
  return el("a", attributes, address.hostname.replace(/^www\./, ""));
}

/** Text with its own line breaks. */
const paragraph = (text, kind) => el("p", { class: kind, dir: "auto" }, text.trim());

/** A button that toggles between more and less. */
function moreButton(show) {
  const toggle = () => {
    const open = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", open);
    button.textContent = open ? "less" : "more";
    show(open);
  };
  const button = el("button", { class: "quiet", type: "button", "aria-expanded": "false", click: toggle }, "more");
  return button;
}

const LONG = 4000;

/** Text of a model, line by line. Very long text is shortened, with a button for the rest. */
function prose(text, kind = "prose", write = (line) => line) {
  if (!text) return null;
  const whole = text.trim();
  const lines = (part) => part.split("\n").map((line) => el("div", { class: "line", dir: "auto" }, write(line)));
  if (whole.length <= LONG) return el("div", { class: kind }, lines(whole));
  const beginning = `${whole.slice(0, LONG)} …`;
  const said = el("div", { class: kind }, lines(beginning));
  return [said, moreButton((open) => said.replaceChildren(...lines(open ? whole : beginning)))];
}

const MARKS = {
  right: ["✓", "right"],
  wrong: ["✗", "wrong"],
  partly: ["◐", "partly right"],
  abstained: ["–", "abstained"],
  unread: ["∅", "no readable answer"],
  unmarked: ["∅", "no marked answer"],
  echoed: ["∅", "only its prompt given back"],
  cut: ["∅", "cut off before an answer"],
  failed: ["!", "failed"],
  deferred: ["?", "deferred to a person"],
  unknown: ["·", "no gold answer"],
  waiting: ["…", "thinking"],
  stopped: ["–", "not finished"],
};

/** The outcome of a debate: a sign with its word. */
function mark(kind, worded = true) {
  const [sign, word] = MARKS[kind];
  const said = el("span", { class: worded ? null : "unseen" }, word);
  return el("span", { class: `mark ${kind}`, title: word }, el("span", { "aria-hidden": "true" }, sign), said);
}
