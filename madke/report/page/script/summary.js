// The summary: the way to the debates, the cost of the chart, and tables that sort.

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

/** Sort a table by a heading: figures from the highest, words from A; the second time the other way round. */
function sort(heading) {
  const { tBodies, tHead } = heading.closest("table");
  const down = heading.ariaSort !== "descending";
  const keyOf = ({ cells }) => cells[heading.cellIndex].dataset.order ?? cells[heading.cellIndex].textContent.trim();
  const compare = (one, other) => {
    const [a, b] = [one, other].map(keyOf);
    if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1; // Rows without a figure come last.
    return (isNaN(a) ? a.localeCompare(b, "en", { numeric: true }) : b - a) * (down ? 1 : -1);
  };
  for (const each of tHead.rows[0].cells) each.ariaSort = "none";
  heading.ariaSort = down ? "descending" : "ascending";
  tBodies[0].append(...[...tBodies[0].rows].sort(compare));
}

for (const heading of document.querySelectorAll("#summary thead th")) {
  heading.firstElementChild.addEventListener("click", () => sort(heading));
}

// The cost of the chart is a choice of plots, and of what the key says of each run.
const cost = byId("cost");
if (cost) {
  const lists = [byId("chart"), ...document.querySelectorAll(".key li")].map((each) => each.querySelectorAll(".plot, .spent"));
  const choose = () => {
    for (const list of lists) for (const [n, each] of list.entries()) each.hidden = n !== cost.selectedIndex;
  };
  cost.selectedIndex = 0; // A browser keeps what was chosen before a reload.
  cost.hidden = false;
  cost.addEventListener("input", choose);
}

// Print shows all parts.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("#summary details")) part.open = true;
});
