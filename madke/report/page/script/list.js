// The list of debates: filters, search, and order.

const PAGE = 60;
const CONTROLS = ["run", "with", "dataset", "outcome", "q"];
const controls = Object.fromEntries(CONTROLS.map((name) => [name, byId(`by-${name}`)]));

const list = { shown: [], drawn: 0, beside: null };
const haystacks = new Map();

/** Searchable text in lower case: id, question, gold answers and the run's answer. */
function haystack(run) {
  if (!haystacks.has(run)) {
    const text = (number) => {
      const q = debates.question[number];
      const parts = [questions.id[q], questions.text[q], questions.gold[q], debates.answer[number] ?? ""];
      return parts.join("\n").toLowerCase();
    };
    haystacks.set(run, new Map(run.debates.map((number) => [number, text(number)])));
  }
  return haystacks.get(run);
}

function option(value, text, chosen) {
  const made = el("option", { value }, text);
  made.selected = value === chosen;
  return made;
}

/** Fill the controls with options, and set the chosen ones. */
function offer(wanted) {
  const run = runNamed(wanted.run) ?? runs[0];
  const others = runs.filter(
    (other) => other !== run && run.debates.some((number) => counterpart(other, number) !== null),
  );
  const beside = others.find((other) => other.name === wanted.with) ?? null;
  const named = [...new Set(questions.dataset)].filter(Boolean).sort();
  const kinds = outcomes.map((name) => [name, index.outcomes[name], (number) => is(number, name)]);
  if (beside)
    kinds.push(["differ", `differs from ${beside.name}`, (number) => differ(number, counterpart(beside, number))]);
  const offered = kinds
    .map(([name, words, test]) => [name, words, run.debates.filter(test).length])
    .filter(([name, , count]) => count > 0 || name === wanted.outcome);
  controls.run.replaceChildren(...runs.map(({ name }) => option(name, name, run.name)));
  controls.with.replaceChildren(
    option("", "none", ""),
    ...others.map(({ name }) => option(name, name, beside?.name)),
  );
  controls.dataset.replaceChildren(option("", "all", ""), ...named.map((name) => option(name, name, wanted.dataset)));
  controls.outcome.replaceChildren(
    option("", "all", ""),
    ...offered.map(([name, words, count]) => option(name, `${words} (${figure(count)})`, wanted.outcome)),
  );
  if (document.activeElement !== controls.q) controls.q.value = wanted.q ?? "";
  byId("choose-run").hidden = runs.length === 1;
  byId("choose-with").hidden = others.length === 0;
  byId("choose-dataset").hidden = named.length < 2;
}

/** The values of all controls that are set. */
function chosen() {
  const values = Object.entries(controls).map(([name, control]) => [name, control.value.trim()]);
  return Object.fromEntries(values.filter(([, value]) => value));
}

/** The values that filter the debates of a run. */
const narrowed = ({ dataset, outcome: kind, q }) =>
  Object.fromEntries(Object.entries({ dataset, outcome: kind, q }).filter(([, value]) => value));

/** The URL of the list with its current filters. */
function listAddress() {
  const parts = new URLSearchParams(chosen());
  return `#debates${parts.size ? `?${parts}` : ""}`;
}

/** Show the debates that match the controls. */
function filter() {
  performance.mark("madke-filter");
  const { run: name, with: other, dataset, outcome: kind, q = "" } = chosen();
  const run = runNamed(name) ?? runs[0];
  const beside = runNamed(other) ?? null;
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const text = words.length ? haystack(run) : null;
  const wanted = (number) =>
    (!dataset || questions.dataset[debates.question[number]] === dataset) &&
    (!kind || (kind === "differ" ? beside && differ(number, counterpart(beside, number)) : is(number, kind))) &&
    words.every((word) => text.get(number).includes(word));
  Object.assign(list, { shown: run.debates.filter(wanted), drawn: 0, beside });
  byId("rows").replaceChildren();
  byId("debates").classList.toggle("two", beside !== null);
  byId("heads").replaceChildren(...["", run.name, beside?.name ?? ""].map((name) => el("span", {}, name)));
  draw();
  byId("count").textContent = `${figure(list.shown.length)} of ${plural(run.count, "debate")}`;
  byId("none").hidden = list.shown.length > 0;
  byId("to-debates").href = listAddress();
  performance.measure("madke-filter", "madke-filter");
}

/** Draw the next rows, at least up to row `upTo`. */
function draw(upTo = 0) {
  const until = Math.max(list.drawn + PAGE, upTo + 1);
  byId("rows").append(...list.shown.slice(list.drawn, until).map(row));
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
  const other = list.beside && counterpart(list.beside, number);
  const facts = spentOn(number, "rounds", "tokens");
  if (repeat > 0) facts.unshift(`repeat ${repeat + 1}`);
  const cameOut = (each) => el("span", { class: "outcome" }, mark(outcome(each)), answered(each), flagsOf(each));
  const link = el(
    "a",
    { href: address(number, list.beside) },
    el("span", { class: "asked", dir: "auto" }, questions.text[debates.question[number]]),
    el("span", { class: "facts" }, facts.join(" · ")),
    cameOut(number),
    list.beside && (other === null ? el("span", { class: "outcome" }, "not in this run") : cameOut(other)),
  );
  return el("li", {}, link);
}

function answered(number) {
  const answer = debates.answer[number];
  return answer === null ? null : el("span", { class: "answer", dir: "auto" }, answer);
}

/** The debate `step` places after another one in the list; null beyond its ends. */
function neighbour(number, step) {
  const place = list.shown.indexOf(number);
  return place < 0 ? null : (list.shown[place + step] ?? null);
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
