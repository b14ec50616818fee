// Views and routing. The URL names the current view, so that links, bookmarks and the back button work.

const views = { summary: byId("summary"), debates: byId("debates"), debate: byId("debate") };
let open = null; // The debate that is shown, or was shown last.
let routed = 0; // Number of route changes. A view that loads too late for its route is dropped.

function route() {
  routed += 1;
  const [path, query] = location.hash.slice(1).split("?");
  const parts = path.split("/");
  const asked = Object.fromEntries(new URLSearchParams(query));
  if (parts.length === 2) return showDebate(...parts.map(decoded), asked, query);
  return path === "debates" ? showList(query) : showSummary(path);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // Not an address of this page: shown as not found.
  }
}

const pageTitle = document.title; // Of the experiment or run.

/** Show a view. The summary has no title of its own. */
function show(name, title = "") {
  for (const [each, view] of Object.entries(views)) view.hidden = each !== name;
  byId("to-summary").ariaCurrent = name === "summary" ? "page" : null;
  byId("to-debates").ariaCurrent = name === "summary" ? null : "page";
  document.title = printable(title ? `${title} · ${pageTitle}` : pageTitle);
}

/** The summary. Of several runs it holds the matrix; a filter there leads to the debates. */
function showSummary(section) {
  show("summary");
  if (runs.length > 1) {
    byId("entry").after(views.debates);
    views.debates.hidden = false;
    filter(filtersOf(""));
  }
  const part = byId(section);
  if (part?.tagName === "DETAILS") part.open = true;
  if (section && section !== "summary") part?.scrollIntoView();
  else scrollTo(0, 0);
}

function showList(query) {
  const back = !views.debate.hidden;
  const focused = document.activeElement;
  show("debates", "Debates");
  if (views.summary.contains(views.debates)) {
    views.summary.after(views.debates);
    focused.focus({ preventScroll: true });
  }
  filter(filtersOf(query));
  if (back && open !== null && list.shown.includes(itemOf(open))) focusItem(open);
  else scrollTo(0, 0);
}

function focusItem(number) {
  if (filters.run === null) focusCell(number);
  else focusRow(number);
}

async function showDebate(name, id, asked, query) {
  const run = runNamed(name);
  const number = run ? debateOf(run, id, Number(asked.repeat ?? 0)) : null;
  if (number === null) {
    show("debate", "Not found");
    views.debate.replaceChildren(
      el("p", { class: "note" }, `This page has no debate “${id}” of a run “${name}”.`),
    );
    return;
  }
  const turn = routed;
  await listAround(number, filtersOf(query, run));
  if (turn !== routed) return;
  open = number;
  const record = await debate(number);
  if (turn !== routed) return;
  show("debate", record.question);
  const title = el("h2", { tabindex: "-1", dir: "auto", class: record.question.length > 200 && "long" }, record.question);
  views.debate.replaceChildren(
    steps(number),
    crumbs(number, record),
    title,
    ...[stripPart(record)].filter(Boolean),
    el("div", { class: "about" }, questionPart(record), outcomePart(number, record)),
    ...[otherRuns(number)].filter(Boolean),
    debateView({ run, record }),
  );
  title.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** The answers of the other runs on the same question. */
function otherRuns(number) {
  const others = runs.filter((run) => run !== runOf(number) && counterpart(run, number) !== null);
  const one = (run) => {
    const other = counterpart(run, number);
    const answer = debates.answer[other];
    const said = answer === null ? el("span", { class: "facts" }, MARKS[outcome(other)][1]) : shortened(answer);
    return el("li", {}, el("a", { href: address(other) }, run.name), mark(outcome(other), false), said);
  };
  if (others.length === 0) return null;
  return el(
    "details",
    { class: "others", open: others.length < 4 },
    el("summary", {}, plural(others.length, "other run")),
    el("ul", {}, others.map(one)),
  );
}

/** Links back to the list, and to the previous and next debate. */
function steps(number) {
  const place = list.shown.indexOf(itemOf(number));
  const step = (by, text, key) => {
    const next = neighbour(number, by);
    if (next === null) return el("span", { class: "step", "aria-disabled": "true" }, text);
    return el("a", { class: "step", title: `${text} (${key})`, href: address(next) }, text);
  };
  const where = place < 0 ? null : `${figure(place + 1)} of ${figure(list.shown.length)}`;
  const back = el("a", { href: listAddress(), class: "step", title: "Back to the list (Esc)" }, "← Debates");
  const facts = el("span", { class: "facts" }, where);
  return el("div", { class: "steps" }, back, facts, step(-1, "Previous", "k"), step(1, "Next", "j"));
}

/** After a search of texts: the place of the open debate in what was found. */
function refreshSteps() {
  if (!views.debate.hidden && open !== null) views.debate.querySelector(".steps")?.replaceWith(steps(open));
}

function crumbs(number, record) {
  const run = runOf(number);
  const repeats = run.byQuestion.get(debates.question[number]);
  const dataset = questions.dataset[debates.question[number]];
  const current = (each) => (each === number ? "true" : null);
  const link = (each) =>
    el("a", { href: address(each), "aria-current": current(each) }, debates.repeat[each] + 1);
  const facts = [run.name, dataset, record.id, record.task.replaceAll("_", " ")].filter(Boolean).join(" · ");
  return el("p", { class: "facts crumbs" }, facts, repeats.length > 1 && [" · repeat ", repeats.map(link)]);
}


// Keys.
const go = (to) => to !== null && (location.hash = to);

const KEYS = {
  "/": () => (views.debates.hidden ? go(listAddress()) : null, setTimeout(() => controls.q.focus())),
  Escape: () => {
    if (views.debate.hidden) document.activeElement.blur();
    else if (!closePassage()) go(listAddress());
  },
  j: () => move(1),
  k: () => move(-1),
};

function move(step) {
  if (!views.debates.hidden && filters.run === null) moveCell(document.activeElement.closest("#matrix") ? step : 0, 0);
  else if (!views.debates.hidden) focusRow(null, document.activeElement.closest("#rows") ? step : step > 0 ? 1 : 0);
  if (!views.debate.hidden && open !== null) {
    const next = neighbour(open, step);
    if (next === null) return;
    open = next; // Set before the page follows, so that no key press is lost.
    go(address(next));
  }
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, select, textarea");
  if (typing && event.key === "Escape") return typing.blur();
  if (typing && !(event.key === "ArrowDown" && typing === controls.q)) return;
  const inRows = event.target.closest("#rows") || typing;
  const arrows = inRows
    ? { ArrowDown: "j", ArrowUp: "k" }
    : views.debate.hidden
      ? {}
      : { ArrowRight: "j", ArrowLeft: "k" };
  const action = KEYS[arrows[event.key] ?? event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

addEventListener("hashchange", route);
await route();
document.documentElement.classList.add("ready");
performance.mark("madke-ready");
