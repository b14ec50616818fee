// The matrix of question by run: the first view of the debates of several runs. Rows are drawn as they come in sight.

const rightIn = (run) => run.debates.filter((number) => is(number, "right")).length / Math.max(1, run.count);

/** The two runs with the largest shares of right debates. */
const bestTwo = [...runs].sort((one, other) => rightIn(other) - rightIn(one)).slice(0, 2);

/** Whether two runs are the best of several. */
const ranked = runs.length > 2 && rightIn(bestTwo[0]) > 0;

const SHOWN = {
  ...(ranked ? { best: `the two best differ: ${bestTwo.map((run) => run.name).join(", ")}` } : {}),
  differ: "runs differ",
  "none-right": "no run right",
  "all-right": "all runs right",
  all: "all questions",
};

const answerOf = (number) => debates.answer[number]?.toLowerCase();

/** How the runs' outcomes on each question compare. Without gold answers, their answers are compared. */
const spreads = runs.length > 1 ? questions.id.map((_, question) => spreadOf(question)) : [];

function spreadOf(question) {
  const inRun = (run) => (run.byQuestion.get(question) ?? []).map((number) => outcome(number));
  const kinds = runs.map(inRun).filter((found) => found.length > 0);
  const unknown = kinds.flat().every((kind) => kind === "unknown");
  const answersOf = (some) => new Set(some.flatMap((run) => run.byQuestion.get(question) ?? []).map(answerOf));
  const kindsOf = (some) => new Set(some.map(inRun).filter((found) => found.length > 0).map((found) => found.sort().join()));
  const differ = (some) => (unknown ? answersOf(some) : kindsOf(some)).size > 1;
  return {
    best: differ(bestTwo),
    differ: differ(runs),
    "none-right": !unknown && !kinds.flat().includes("right"),
    "all-right": kinds.flat().every((kind) => kind === "right"),
    all: true,
  };
}

const shownCounts = Object.keys(SHOWN).map((name) => [name, spreads.filter((spread) => spread[name]).length]);

/** The matrix opens on the questions where the two best runs differ, or else any runs, if there are any. */
const usualShow = () => ["best", "differ"].find((name) => name in SHOWN && spreads.some((spread) => spread[name])) ?? "all";

filters = filtersOf("");

/** One column for each repeat of each run. */
const slots = runs.flatMap((run) => {
  const repeats = new Set(run.debates.map((number) => debates.repeat[number]));
  return [...repeats].sort((a, b) => a - b).map((repeat) => ({ run, repeat }));
});
const inSlot = ({ run, repeat }, question) =>
  (run.byQuestion.get(question) ?? []).find((number) => debates.repeat[number] === repeat) ?? null;

/** The questions that the filters leave, before the search, in their order. */
function inMatrix({ show, cells, sort, dataset }) {
  const has = ({ kind, run }, question) => (run.byQuestion.get(question) ?? []).some((number) => is(number, kind));
  const wanted = (question) =>
    spreads[question][show] &&
    (!dataset || questions.dataset[question] === dataset) &&
    cells.every((cell) => has(cell, question));
  const found = [...questions.id.keys()].filter(wanted);
  if (!sort) return found;
  const ranks = new Map(found.map((question) => [question, rankIn(sort, question)]));
  return found.sort((a, b) => ranks.get(a) - ranks.get(b));
}

const ORDERS = {
  right: ["right", "partly", "unknown", "abstained", "unread", "deferred", "failed", "wrong"],
  wrong: ["wrong", "failed", "deferred", "unread", "abstained", "unknown", "partly", "right"],
};

/** The place of a question in the order of a run's outcomes. Questions that the run lacks come last. */
function rankIn({ kind, run }, question) {
  const places = (run.byQuestion.get(question) ?? []).map((number) => ORDERS[kind].indexOf(outcome(number)));
  return places.length ? places.reduce((sum, place) => sum + place, 0) / places.length : ORDERS[kind].length;
}

function showMatrix() {
  byId("grid").style.setProperty("--runs", runs.length);
  byId("grid").classList.toggle("wide", runs.length > 6);
  byId("grid").ariaColCount = 1 + slots.length;
  byId("columns").replaceChildren(el("span", { role: "columnheader" }, "Question"), ...runs.map(columnHead));
  byId("cells").replaceChildren();
  draw();
}

/** A row. Its question opens the debate of the best run; a cell opens that of its run. */
function matrixRow(question) {
  const gold = questions.gold[question];
  const text = questions.text[question];
  const best = [...bestTwo, ...runs].map((run) => debateOn(run, question)).find((number) => number !== null);
  const asked = el(
    "div",
    { role: "rowheader", class: "asked" },
    el("a", { class: "text", dir: "auto", title: text, href: address(best), tabindex: "-1" }, text),
    excerptIn(question) ?? (gold && goldPart(gold)),
  );
  const cells = runs.map((run) => {
    const links = slots.map((slot, column) => slot.run === run && matrixCell(slot, question, column));
    return el("div", { role: "gridcell", class: "cell" }, links);
  });
  return el("div", { role: "row" }, asked, cells);
}

/** One debate: its sign, and the answer if it is not right and there is room. */
function matrixCell(slot, question, column) {
  const number = inSlot(slot, question);
  const first = column === 0 && question === list.shown[0];
  const shared = { "data-column": column, tabindex: first ? "0" : "-1" };
  if (number === null) return el("span", { ...shared, title: `${slot.run.name}: not in this run` }, "");
  const kind = outcome(number);
  const [sign, word] = MARKS[kind];
  const repeats = slots.filter((each) => each.run === slot.run).length;
  const answer = debates.answer[number];
  const title = [
    `${slot.run.name}: ${word}`,
    repeats > 1 && `repeat ${slot.repeat + 1}`,
    answer && kind !== "right" && answer,
  ];
  const said = title.filter(Boolean).join(", ");
  return el(
    "a",
    { ...shared, href: address(number), class: `mark ${kind}`, title: said, "aria-label": said },
    el("span", { "aria-hidden": "true" }, sign),
    repeats === 1 && kind !== "right" && el("span", { class: "said", dir: "auto", "aria-hidden": "true" }, answer),
  );
}

/** A run's name, which sorts, and a choice of outcomes, which filters. */
function columnHead(run) {
  const sort = filters.sort?.run === run ? filters.sort.kind : "";
  const cell = filters.cells.find((each) => each.run === run)?.kind ?? "";
  const next = { "": "wrong", wrong: "right", right: null }[sort];
  const turn = () => {
    refine({ sort: next && { kind: next, run } });
    byId("columns").querySelectorAll("button")[runs.indexOf(run)].focus();
  };
  const pick = ({ target }) => {
    const others = filters.cells.filter((each) => each.run !== run);
    refine({ cells: target.value ? [...others, { kind: target.value, run }] : others });
    byId("columns").querySelectorAll("select")[runs.indexOf(run)].focus();
  };
  const select = el("select", { "aria-label": `Outcome in ${run.name}`, input: pick });
  const signed = (kind, words) => (MARKS[kind] ? `${MARKS[kind][0]} ${words}` : words);
  const kinds = outcomesOf(run).map(([kind, words, count]) => [kind, signed(kind, words), count]);
  offerCounted(select, kinds, cell, `all (${figure(run.count)})`);
  const sign = MARKS[cell]?.[0];
  return el(
    "div",
    { role: "columnheader", class: "head", "aria-sort": { right: "descending", wrong: "ascending" }[sort] ?? "none" },
    el(
      "button",
      { type: "button", click: turn, title: `Sort by ${run.name}: ${next ? `${next} first` : "as in the data"}` },
      el("span", { class: "run", dir: "auto" }, run.name.split(/(?<=[-+_. ])/).flatMap((part) => [part, el("wbr")])),
      sort && el("span", { class: "sorted" }, `${MARKS[sort][0]} first`),
    ),
    el(
      "span",
      { class: `only mark ${cell}` },
      el("span", { "aria-hidden": "true" }, cell ? (sign ?? cell) : "all", " ▾"),
      select,
    ),
  );
}

const occurs = (kind) => runs.some((run) => outcomesOf(run).some(([name, , count]) => name === kind && count > 0));
if (runs.length > 1) byId("legend").replaceChildren(...Object.keys(MARKS).filter(occurs).map((kind) => mark(kind)));

// Keys: one cell is reached with Tab, the others with arrows.

function toCell(row, column) {
  if (list.shown.length === 0) return;
  const clamped = (value, count) => Math.min(Math.max(value, 0), count - 1);
  const place = clamped(row, list.shown.length);
  draw(place);
  const cell = byId("cells").children[place].querySelector(`[data-column="${clamped(column, slots.length)}"]`);
  byId("cells").querySelector('[data-column][tabindex="0"]')?.setAttribute("tabindex", "-1");
  cell.setAttribute("tabindex", "0");
  cell.focus({ preventScroll: true });
  cell.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function moveCell(rows, columns) {
  const cell = document.activeElement.closest("[data-column]") ?? byId("cells").querySelector('[data-column][tabindex="0"]');
  if (!cell) return;
  toCell([...byId("cells").children].indexOf(cell.closest("[role=row]")) + rows, Number(cell.dataset.column) + columns);
}

/** Focus the cell of a debate. */
function focusCell(number) {
  const column = slots.findIndex(({ run, repeat }) => run === runOf(number) && repeat === debates.repeat[number]);
  toCell(list.shown.indexOf(itemOf(number)), column);
  document.activeElement.scrollIntoView({ block: "center" });
}

const STEPS = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [10, 0], PageUp: [-10, 0] };

byId("cells").addEventListener("keydown", (event) => {
  const step = STEPS[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  moveCell(...step);
});
