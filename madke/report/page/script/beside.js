// Up to four runs side by side.

const MOST_RUNS = 4;

/** Answers of the other runs on the same question. Each can be opened alone or next to this one. */
function otherRuns(number, beside) {
  const others = runs.filter((run) => run !== runOf(number) && counterpart(run, number) !== null);
  if (others.length === 0) return null;
  const one = (run) => {
    const other = counterpart(run, number);
    return el(
      "li",
      {},
      el("a", { href: address(other) }, run.name),
      mark(outcome(other), false),
      debates.answer[other] === null ? el("span", { class: "facts" }, MARKS[outcome(other)][1]) : shortened(debates.answer[other]),
      besideLink(number, run, beside),
    );
  };
  const counts = Object.keys(MARKS).map((kind) => [
    kind,
    others.filter((run) => outcome(counterpart(run, number)) === kind).length,
  ]);
  const facts = counts.filter(([, count]) => count > 0).map(([kind, count]) => `${count} ${MARKS[kind][1]}`);
  return el(
    "details",
    { class: "others", open: others.length < MOST_RUNS || beside.length > 0 },
    el("summary", {}, plural(others.length, "other run"), el("span", { class: "facts" }, facts.join(", "))),
    el("ul", {}, others.map(one)),
  );
}

/** A link that adds a run to those side by side, or takes it away. */
function besideLink(number, run, beside) {
  const shown = beside.includes(run);
  if (!shown && beside.length + 1 === MOST_RUNS) return el("span", { class: "facts" }, `${MOST_RUNS} runs at most`);
  const left = shown ? beside.filter((each) => each !== run) : [...beside, run];
  const label = shown ? `close ${run.name}` : `side by side with ${run.name}`;
  const attributes = { class: "beside", "aria-label": label, "data-run": run.name, href: address(number, ...left) };
  return el("a", attributes, shown ? "close" : "side by side");
}

/** For each run its name, outcome and answers by round. The names stay at the top while rounds scroll. */
function columnHeads(parts) {
  const name = ({ run }) => el("p", { class: "lane run" }, run.name);
  const head = ({ run, number, record }) =>
    el(
      "div",
      { class: "lane" },
      el("p", { class: "run" }, run.name),
      record
        ? [stripPart(record), outcomePart(number, record)]
        : el("p", { class: "note" }, "This run has no debate on this question."),
    );
  return [
    el("div", { class: "lanes names", "aria-hidden": "true" }, parts.map(name)),
    el("div", { class: "lanes heads" }, parts.map(head)),
  ];
}
