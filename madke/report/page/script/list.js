// The list of debates: addresses, filters, search, and the rows of one run. The matrix of all runs is in matrix.js.
//
//   #debates             the matrix of question by run, on the questions where runs differ; of one run, its list
//     show=KIND (differ, none-right, all-right, all), cell=KIND:NAME (outcome in a run), sort=right:NAME or wrong:NAME
//   #debates?run=NAME    the list of one run
//     outcome=KIND (of OUTCOMES in report/html.py; several with commas)
//   #NAME/ID?repeat=N    a debate: its run, its question, its repeat (from 0), and the filters of its list
//
// Lists also take dataset=NAME and q=WORDS. What the page does not know is ignored.

const PAGE = 60;
const CONTROLS = ["run", "show", "dataset", "outcome", "q"];
const controls = Object.fromEntries(CONTROLS.map((name) => [name, byId(`by-${name}`)]));

let filters; // What `filtersOf` gives for the list that is shown.
const list = { shown: [], left: [], drawn: 0, searched: new Set(), words: [], turn: 0 };

const datasets = [...new Set(questions.dataset)].filter(Boolean).sort();

/** The filters that an address asks for. Its run is null for the matrix. `own` is the run of a debate's address. */
function filtersOf(query, own = null) {
  const given = new URLSearchParams(query);
  const named = own ?? runNamed(given.get("run"));
  const run = runs.length > 1 && (own ? given.has("show") : !named) ? null : (named ?? runs[0]);
  const one = (name, values) => (values.includes(given.get(name)) ? given.get(name) : "");
  const pair = (text) => ({ kind: text.split(":")[0], run: runNamed(text.slice(text.indexOf(":") + 1)) });
  const pairs = (name, kinds) => given.getAll(name).map(pair).filter((each) => each.run && kinds.includes(each.kind));
  const shared = { run, dataset: one("dataset", datasets), q: (given.get("q") ?? "").trim() };
  if (run === null) {
    const show = one("show", Object.keys(SHOWN)) || usualShow();
    const cells = pairs("cell", [...outcomes, "unknown", "missed"]);
    return { ...shared, show, cells, sort: pairs("sort", ["right", "wrong"])[0] ?? null };
  }
  const kinds = (given.get("outcome") ?? "").split(",");
  return { ...shared, outcome: kinds.every((kind) => outcomes.includes(kind)) ? kinds.join(",") : "" };
}

/** The filters as parts of an address: of the list, or of a debate in it. */
function partsOf({ run, show, cells, sort, outcome, dataset, q }, ofDebate = false) {
  const parts = new URLSearchParams();
  const add = (name, value) => value && parts.append(name, value);
  if (run === null) {
    if (ofDebate || show !== usualShow()) add("show", show);
    for (const cell of cells) add("cell", `${cell.kind}:${cell.run.name}`);
    if (sort) add("sort", `${sort.kind}:${sort.run.name}`);
  } else {
    if (!ofDebate) add("run", run.name);
    add("outcome", outcome);
  }
  add("dataset", dataset);
  add("q", q);
  return parts;
}

function listAddress() {
  const parts = partsOf(filters);
  return `#debates${parts.size ? `?${parts}` : ""}`;
}

function option(value, text, chosen) {
  const made = el("option", { value }, text);
  made.selected = value === chosen;
  return made;
}

const countOf = (run, kind) => run.debates.filter(cameOut(kind)).length;

/** The outcomes of a run: name, words, number of debates. */
function outcomesOf(run) {
  const words = { ...index.outcomes, unknown: "no gold answer", missed: "not right" };
  run.counts ??= Object.keys(words).map((kind) => [kind, words[kind], countOf(run, kind)]);
  return [...run.counts];
}

/** Fill a control with the kinds that occur, and their counts. */
function offerCounted(control, kinds, chosen, all) {
  const offered = kinds.filter(([kind, , count]) => count > 0 || kind === chosen);
  const made = offered.map(([kind, words, count]) => option(kind, `${words} (${figure(count)})`, chosen));
  control.replaceChildren(option("", all, chosen), ...made);
}

/** Set the controls to the filters, with the choices that they leave. */
function offer() {
  const { run, dataset, outcome, show, q } = filters;
  const every = runs.length > 1 ? [option("", "all runs", run ? null : "")] : [];
  controls.run.replaceChildren(...every, ...runs.map(({ name }) => option(name, name, run?.name)));
  controls.dataset.replaceChildren(option("", "all", ""), ...datasets.map((name) => option(name, name, dataset)));
  if (run === null) {
    const made = shownCounts.map(([name, count]) => option(name, `${SHOWN[name]} (${figure(count)})`, show));
    controls.show.replaceChildren(...made);
  } else {
    const kinds = outcomesOf(run);
    if (outcome.includes(",")) kinds.push([outcome, outcome, countOf(run, outcome)]);
    offerCounted(controls.outcome, kinds, outcome, "all");
  }
  if (controls.q.value.trim() !== q) controls.q.value = q;
  byId("choose-run").hidden = runs.length === 1;
  byId("choose-dataset").hidden = datasets.length < 2;
  byId("choose-show").hidden = run !== null;
  byId("choose-outcome").hidden = run === null;
}

/** A test whether a debate has all outcomes of a filter, such as "right" or "right,corrected". */
const cameOut = (filter) => (number) => filter.split(",").every((kind) => is(number, kind));

/** Items of the list: debates of one run, or questions of the matrix. */
const itemOf = (number) => (filters.run ? number : debates.question[number]);
const debatesOf = (item) => (filters.run ? [item] : onQuestion(item));

const heads = { of: undefined, texts: null }; // Of a run, or of the matrix (null).

/** Read ids, questions, gold answers and answers in lower case. */
function readHeads() {
  if (heads.of === filters.run) return;
  const text = (item) => {
    const answers = debatesOf(item).map((number) => debates.answer[number] ?? "");
    const q = filters.run ? debates.question[item] : item;
    return [questions.id[q], questions.text[q], questions.gold[q], ...answers].join("\n").toLowerCase();
  };
  const items = filters.run ? filters.run.debates : questions.id.keys();
  Object.assign(heads, { of: filters.run, texts: new Map(Array.from(items, (item) => [item, text(item)])) });
}

const isInHead = (word, item) => heads.texts.get(item).includes(word);

/** The debates of one run that the filters leave, before the search. */
function inList({ run, dataset, outcome }) {
  const ofDataset = (number) => !dataset || questions.dataset[debates.question[number]] === dataset;
  return run.debates.filter(ofDataset).filter(outcome ? cameOut(outcome) : () => true);
}

/** Show what matches the filters: questions and answers that have the words at once, other texts as they are found. */
async function filter(wanted = filters) {
  performance.mark("madke-filter");
  filters = wanted;
  offer();
  const items = filters.run ? inList(filters) : inMatrix(filters);
  const words = filters.q.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length) readHeads();
  const shown = items.filter((item) => words.every((word) => isInHead(word, item)));
  const at = new Set(shown);
  const left = words.length ? items.filter((item) => !at.has(item)) : [];
  Object.assign(list, { shown, left, words, drawn: 0, searched: new Set(), turn: list.turn + 1 });
  byId("rows").replaceChildren();
  byId("matrix").hidden = filters.run !== null;
  byId("list").hidden = filters.run === null;
  if (filters.run === null) showMatrix();
  else showRows();
  byId("to-debates").href = listAddress();
  tell(left.length ? 0 : 1);
  performance.measure("madke-filter", "madke-filter");
  if (left.length) await searchOn(list.turn);
}

const TYPING = 150; // Milliseconds after the last key before texts are searched.

async function searchOn(turn) {
  await new Promise((resume) => setTimeout(resume, TYPING));
  if (turn !== list.turn) return;
  performance.mark("madke-search");
  for await (const { found, share } of searchTexts(list.left, list.words)) {
    if (turn !== list.turn) return;
    for (const item of found) list.searched.add(item);
    list.shown.push(...found);
    if (list.drawn < PAGE) draw();
    else byId("more").hidden = list.drawn === list.shown.length;
    tell(share);
  }
  performance.measure("madke-search", "madke-search");
  refreshSteps();
}

/** How many debates or questions are shown, and how far the search is. */
function tell(share) {
  const total = filters.run ? plural(filters.run.count, "debate") : plural(questions.id.length, "question");
  const inTexts = list.searched.size ? `, ${figure(list.searched.size)} of them in debates or passages` : "";
  byId("count").ariaBusy = share < 1 ? "true" : null;
  byId("count").textContent = `${figure(list.shown.length)} of ${total}${inTexts}`;
  byId("searching").textContent = share < 1 ? `Searching texts: ${Math.floor(100 * share)} %` : "";
  byId("none").hidden = list.shown.length > 0 || share < 1;
}

/** Filter as the address of a debate asks. Without its filters if they exclude the debate. */
async function listAround(number, wanted) {
  if (list.turn === 0 || `${partsOf(wanted)}` !== `${partsOf(filters)}`) filter(wanted);
  const item = itemOf(number);
  if (list.shown.includes(item)) return;
  if (list.left.includes(item)) {
    for await (const { found } of searchTexts([item], list.words)) if (found.length) return;
  }
  filter(filtersOf(wanted.run ? "" : "show=all", wanted.run ? runOf(number) : null));
}

function showRows() {
  byId("heads").replaceChildren(...["", filters.run.name].map((name) => el("span", {}, name)));
  draw();
}

/** Draw the next rows; with `upTo`, no more than are needed for that row. */
function draw(upTo = null) {
  if (upTo !== null && upTo < list.drawn) return;
  const until = Math.max(list.drawn + PAGE, (upTo ?? 0) + 1);
  const next = list.shown.slice(list.drawn, until);
  if (filters.run === null) byId("cells").append(...next.map(matrixRow));
  else byId("rows").append(...next.map(row));
  list.drawn = Math.min(until, list.shown.length);
  byId("more").hidden = list.drawn === list.shown.length;
}

const FLAGS = {
  corrected: "corrected",
  collapsed: "collapsed",
  divided: "no consensus",
  trapped: "trapped",
  degraded: "degraded",
  oracle: "analysis",
};

const flagsOf = (number) =>
  Object.keys(FLAGS)
    .filter((name) => is(number, name))
    .map((name) => el("span", { class: `flag ${name}` }, FLAGS[name]));

/** Usage of a debate in words; empty for predictions from files. */
const spentOn = (number, ...units) =>
  debates.tokens[number] === null ? [] : units.map((unit) => plural(debates[unit][number], unit.slice(0, -1)));

function row(number) {
  const repeat = debates.repeat[number];
  const facts = spentOn(number, "rounds", "tokens");
  if (repeat > 0) facts.unshift(`repeat ${repeat + 1}`);
  const link = el(
    "a",
    { href: address(number) },
    el("span", { class: "asked", dir: "auto" }, questions.text[debates.question[number]]),
    el("span", { class: "facts" }, facts.join(" · "), excerptIn(number)),
    el("span", { class: "outcome" }, answered(number), mark(outcome(number)), flagsOf(number), goldBeside(number)),
  );
  return el("li", {}, link);
}

/** Where the texts of an item have the words, filled in when it is read; null if its question or answers have them. */
function excerptIn(item) {
  if (!list.searched.has(item)) return null;
  const place = el("span", { class: "excerpt", dir: "auto" });
  excerpt(debatesOf(item), list.words).then((found) => place.append(...el("span", {}, found).childNodes));
  return place;
}

/** The first gold answer of a debate that is not right, and how many others there are. */
function goldBeside(number) {
  const gold = questions.gold[debates.question[number]];
  if (!gold || is(number, "right")) return null;
  return goldPart(gold);
}

function goldPart(gold) {
  const [first, ...others] = gold.split(" | ");
  const more = others.length > 0 && el("span", { title: gold }, ` +${others.length}`);
  const label = el("span", { class: "label" }, "gold");
  return el("span", { class: "gold" }, label, el("span", { dir: "auto" }, first), more);
}

function answered(number) {
  const answer = debates.answer[number];
  return answer === null ? null : el("span", { class: "answer", dir: "auto" }, answer);
}

/** The debate `step` places after another one in the list; in the matrix, of the same run. Null beyond the ends. */
function neighbour(number, step) {
  let place = list.shown.indexOf(itemOf(number));
  if (place < 0) return null;
  if (filters.run) return list.shown[place + step] ?? null;
  for (place += step; place in list.shown; place += step) {
    const next = debateOn(runOf(number), list.shown[place], debates.repeat[number]);
    if (next !== null) return next;
  }
  return null;
}

/** Focus the row of a debate, or the row `step` places after the focused one. */
function focusRow(number, step = 0) {
  const links = byId("rows").getElementsByTagName("a");
  const here = number === null ? [...links].indexOf(document.activeElement) : list.shown.indexOf(number);
  const place = Math.min(Math.max(here + step, 0), list.shown.length - 1);
  if (place >= list.drawn) draw(place);
  links[place]?.focus({ preventScroll: true });
  links[place]?.scrollIntoView({ block: number === null ? "nearest" : "center" });
}

/** Change filters, with an entry in the history. The keys of one search share one entry. */
function refine(changes, typing = false) {
  const replaced = typing && history.state?.typing;
  Object.assign(filters, changes);
  history[replaced ? "replaceState" : "pushState"]({ typing }, "", listAddress());
  if (views.summary.hidden) filter();
  else route();
}

for (const [name, control] of Object.entries(controls)) {
  control.addEventListener("input", () => {
    if (name === "run") {
      const parts = partsOf(filters);
      parts.set(name, control.value);
      filters = filtersOf(parts);
    }
    refine(name === "run" ? {} : { [name]: control.value.trim() }, name === "q");
  });
}
controls.q.addEventListener("focus", readHeads); // So that the first key has no more to do than others.
byId("filters").addEventListener("submit", (event) => event.preventDefault());
const nearEnd = (entries) => entries.some((entry) => entry.isIntersecting) && draw();
new IntersectionObserver(nearEnd, { rootMargin: "600px" }).observe(byId("more"));
byId("more").addEventListener("click", () => draw());
