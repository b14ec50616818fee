// The summary: the way to the debates, the cost of the chart, meanings of headings, and tables that sort.

const ENTRIES = {
  ...(ranked ? { best: `on which the two best runs, ${bestTwo.map((run) => run.name).join(" and ")}, differ` } : {}),
  differ: "on which runs differ",
  "none-right": "that no run has right",
  "all-right": "that all runs have right",
  all: "in all",
};

/** Links to the questions of the matrix, or to one run's debates, with their numbers. */
function entries() {
  const questionsOf = ([show, words]) => {
    const count = spreads.filter((spread) => spread[show]).length;
    return [count, `${plural(count, "question")} ${words}`, `#debates?show=${show}`];
  };
  if (runs.length > 1) return Object.entries(ENTRIES).map(questionsOf);
  const debatesOf = (kind) => {
    const count = runs[0].debates.filter((number) => is(number, kind)).length;
    return [count, `${figure(count)} ${MARKS[kind][1]}`, `#debates?outcome=${kind}`];
  };
  return [[runs[0].count, plural(runs[0].count, "debate"), "#debates"], ...exclusive.map(debatesOf)];
}

byId("entry").replaceChildren(
  ...entries().map(([count, text, href]) => count > 0 && el("li", {}, el("a", { href }, text))).filter(Boolean),
);

const tip = el("div", { id: "tip", role: "tooltip", hidden: true });
document.body.append(tip);
let explained = null; // The element whose meaning is shown.

/** Show the meaning of an element above it, or below it at the top of the window. */
function explain(element) {
  if (element === explained) return;
  explained?.removeAttribute("aria-describedby");
  explained = element;
  tip.hidden = element === null;
  if (element === null) return;
  tip.textContent = element.dataset.meaning;
  element.setAttribute("aria-describedby", "tip");
  placeTip();
}

function placeTip() {
  const place = explained.getBoundingClientRect();
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  const above = place.top - tip.offsetHeight - 6;
  tip.style.left = `${Math.max(8, Math.min(place.left, room))}px`;
  tip.style.top = `${above < 0 ? place.bottom + 6 : above}px`;
}

const meant = (event) => event.target.closest?.("[data-meaning]") ?? null;

// Hover, keyboard focus and a tap. The tip stays while the pointer is on it, so that its text can be selected.
for (const kind of ["pointerover", "focusin", "click"]) {
  addEventListener(kind, (event) => !tip.contains(event.target) && explain(meant(event)));
}
addEventListener("scroll", () => explained && placeTip(), true);
addEventListener("keydown", (event) => event.key === "Escape" && explain(null), true);

/** What a row is sorted by in a column: a figure, or words. */
function sortKey(row, column) {
  const cell = row.cells[column];
  return cell.dataset.order === undefined ? cell.textContent.trim() : Number(cell.dataset.order);
}

/** Figures from the highest, words from A, rows without a figure last. */
function compareKeys(one, other, falling) {
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  const rising = typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
  return falling ? -rising : rising;
}

/** Sort a table by a heading: figures fall first, words rise first; the third time brings the first order back. */
function sort(heading) {
  const { tBodies, tHead } = heading.closest("table");
  const [body] = tBodies;
  original.set(body, original.get(body) ?? [...body.rows]);
  const column = heading.cellIndex;
  const keys = new Map(original.get(body).map((row) => [row, sortKey(row, column)]));
  const orders = [...keys.values()].some((key) => typeof key === "number")
    ? ["descending", "ascending", "none"]
    : ["ascending", "descending", "none"];
  const next = orders[(orders.indexOf(heading.ariaSort) + 1) % orders.length];
  for (const each of tHead.rows[0].cells) each.ariaSort = each === heading ? next : "none";
  const rows = [...keys.keys()];
  if (next !== "none") rows.sort((a, b) => compareKeys(keys.get(a), keys.get(b), next === "descending"));
  body.append(...rows);
}

const original = new Map(); // Table body -> its rows in their first order.
for (const heading of document.querySelectorAll("#summary thead th")) {
  heading.firstElementChild.addEventListener("click", () => sort(heading));
}

/** A choice of one of several elements, of which the others are hidden. The first is chosen first. */
function choice(select, ...lists) {
  const choose = () => {
    for (const list of lists) for (const [n, each] of list.entries()) each.hidden = n !== select.selectedIndex;
  };
  select.selectedIndex = 0;
  select.hidden = select.parentElement.hidden = false;
  select.addEventListener("input", choose);
  choose();
}

if (byId("choose-value")) choice(byId("choose-value").querySelector("select"), document.querySelectorAll("#tests > .value"));
if (byId("cost")) {
  const spent = [...document.querySelectorAll(".key li")].map((entry) => entry.querySelectorAll(".spent"));
  choice(byId("cost"), document.querySelectorAll("#chart > .plot"), ...spent);
}

// Print shows all parts.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("#summary details")) part.open = true;
});
