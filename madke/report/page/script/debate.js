// The view of one debate.

const inOrder = (names) => [...names].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));

/** The sorted debaters. */
const cast = (record) => inOrder(new Set(record.rounds.flatMap((round) => round.turns.map((turn) => turn.agent))));

const agentName = (agent) => el("span", { class: "agent", dir: "auto" }, agent);

function score(record, answer) {
  const value = record.scores[answer];
  return value === undefined ? "unknown" : value === 1 ? "right" : value === 0 ? "wrong" : "partly";
}

function given(record, answer, status = "ok", write = (text) => text) {
  if (answer === null || answer === undefined) return mark(status in MARKS && status !== "ok" ? status : "abstained");
  const kind = score(record, answer);
  const said = el("span", { class: "answer", dir: "auto" }, write(answer));
  return el("span", { class: "given" }, kind === "unknown" ? null : mark(kind, false), said);
}

const MOST_GOLDS = 5; // Some questions have dozens of aliases.

/** Question, choices and gold answers, which all runs share. */
function questionPart(record) {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const gold = new Set(record.answers);
  const choice = (text, n) => {
    const right = gold.has(letters[n]) || gold.has(text);
    const sign = right && mark("right", false);
    return el("li", { class: right ? "gold" : null, dir: "auto" }, el("b", {}, letters[n]), text, sign);
  };
  const golds = record.answers.map((text) => el("span", { class: "answer", dir: "auto" }, text));
  const rest = golds.splice(MOST_GOLDS);
  const more = rest.length > 0 && moreButton((open) => (open ? golds.at(-1).after(...rest) : rest.map((each) => each.remove())));
  return [
    record.choices && el("ol", { class: "choices" }, record.choices.map(choice)),
    golds.length > 0 && el("p", { class: "golds" }, el("span", { class: "label" }, "Gold"), golds, more && [" ", more]),
  ];
}

/** One debate: its rounds, next to their pool. */
function debateView(part) {
  const { record } = part;
  const pool = poolPart(part);
  const row = (kind, title, content) =>
    content && el("section", { class: `round ${kind}` }, title && el("h3", {}, title), content);
  const rounds = record.rounds.map((_, place) => row("", `Round ${place + 1}`, roundPart(part, place)));
  const reading = [
    row("prepared", "Before the debate", preparedPart(part)),
    rounds,
    row("final", "Final answer", record.final && finalPart(part)),
    row("used", null, usagePart(record)),
  ];
  return el("article", { class: "debate" }, el("div", { class: pool ? "reading wide" : "reading" }, el("div", {}, reading), pool));
}

/** One line: what each debater answered round by round, and what the judge found. */
function stripPart(record) {
  const steps = (words) => words.map((word) => el("span", { class: "step" }, word));
  const lines = cast(record).map((agent) => {
    const turns = record.rounds.flatMap((round) => round.turns.filter((turn) => turn.agent === agent));
    return [agentName(agent), ": ", steps(turns.map(({ stance }) => briefly(record, stance)))];
  });
  const verdicts = record.rounds.flatMap((round) => round.verdict ?? []);
  const sided = verdicts.some((verdict) => verdict.side);
  if (verdicts.length > 0) lines.push(["judge: ", steps(verdicts.map((verdict) => judged(verdict, sided)))]);
  if (lines.length === 0) return null;
  return el("ul", { class: "strip", "aria-label": "Answers by round" }, lines.map((line) => el("li", {}, line)));
}

const BRIEF = 40;

/** The beginning of a long text, with the whole as its tooltip. */
function shortened(text) {
  const long = text.length > BRIEF;
  return el("span", { class: "answer", dir: "auto", title: long && text }, long ? `${text.slice(0, BRIEF)} …` : text);
}

/** An answer and its mark, with no line break between them. */
function briefly(record, { answer, status }) {
  if (answer == null) return given(record, answer, status);
  const kind = score(record, answer);
  return [shortened(answer), kind !== "unknown" && ["\u00a0", mark(kind, false)]];
}

/** What a judge found: whether the answers are the same, or, if it takes sides, which one it supports. */
function judged(verdict, sided) {
  if (verdict.consensus == null) return verdict.error ? mark("failed") : "no verdict";
  if (sided) return verdict.consensus ? `sides with ${verdict.side ?? "neither"}` : "undecided";
  return verdict.consensus ? "same" : "different";
}

function outcomePart(number, record) {
  const spent = spentOn(number, "rounds", "calls", "tokens");
  const facts = spent.length ? [`ended by: ${record.stop_reason}`, ...spent] : ["from a prediction file"];
  return el(
    "header",
    { class: "result" },
    el(
      "p",
      { class: isSplit(record) ? "answered split" : "answered" },
      el("span", { class: "label" }, "Answer"),
      record.answer != null && shortened(record.answer),
      mark(outcome(number)),
      flagsOf(number),
    ),
    el("p", { class: "facts" }, facts.join(" · ")),
    record.oracle && el("p", { class: "note" }, index.outcomes.oracle),
  );
}

function preparedPart({ record }) {
  const texts = Object.entries(record.prepared ?? {}).flatMap(([agent, stages]) =>
    Object.entries(stages).map(([stage, text]) => folded([agentName(agent), ` prepares ${stage}`], text)),
  );
  return texts.length > 0 && texts;
}

function folded(title, text, write) {
  if (!text) return el("p", { class: "note" }, title);
  return el("details", { class: "folded" }, el("summary", {}, title), prose(text, "prose", write));
}

/** Round `place` of a debate. */
function roundPart(part, place) {
  const { record } = part;
  const round = record.rounds[place];
  const spoke = round.turns.map((turn) => turn.agent);
  const notes = [
    record.first_round_given && round.n === 1 && "Stances from a file.",
    round.order.join() !== spoke.join() && `Read in the order ${round.order.join(", ")}.`,
    round.scores && `Path consistency: ${weights(round.scores)}.`,
  ];
  return [
    notes.filter(Boolean).map((note) => el("p", { class: "note" }, note)),
    el(
      "div",
      { class: "turns" },
      round.turns.map((turn) => turnPart(part, round, turn, record.rounds[place - 1])),
    ),
    round.remarks?.map((remark) => aside([agentName(remark.role), " remarks"], remark)),
    round.verdict && [verdictPart(round.verdict), callsPart(record, ofVerdict(round))],
    round.extracted &&
      aside(["Answer extracted so far: ", given(record, round.extracted.answer, round.extracted.status)], round.extracted),
    round.digest && aside("Summary for the next round", round.digest),
  ];
}

/** A reply of another role after a round. */
const aside = (title, said) => el("div", { class: "aside" }, el("p", { class: "who" }, title), reply(said));

function weights(scores) {
  const one = ([name, value]) => `${name} ${Number(value.toPrecision(4))}`;
  return Object.entries(scores).map(one).join(", ");
}

function turnPart(part, round, turn, before) {
  const { stance, selection, search, reflection } = turn;
  const earlier = before?.turns.find((one) => one.agent === turn.agent)?.stance.answer ?? null;
  const changed = earlier !== null && stance.answer != null && earlier !== stance.answer;
  const read = [...new Set(turn.reads ?? [])];
  const usual = round.order.filter((name) => name !== turn.agent).join() === read.join();
  const write = (line) => cited(line, part, stance.answer);
  return el(
    "section",
    { class: "turn" },
    el("h4", {}, agentName(turn.agent), given(part.record, stance.answer, stance.status)),
    changed && el("p", { class: "note" }, "changed from ", el("s", { dir: "auto" }, earlier)),
    selection && el("p", { class: "selection line" }, selectionWords(selection, part)),
    search && el("p", { class: "note line" }, searchWords(search, part)),
    read.length > 0 && !usual && el("p", { class: "note" }, `Read ${read.join(", ")}.`),
    typeof stance.confidence === "number" && el("p", { class: "note" }, `Confidence ${stance.confidence}.`),
    reply(stance, write),
    selection?.text && folded("Selection in full", selection.text, write),
    reflection && [el("p", { class: "note" }, SATISFIED.get(reflection.satisfied)), reply(reflection, write)],
    callsPart(part.record, ofTurn(round, turn)),
  );
}

function searchWords(search, part) {
  const found = search.ids?.length ? ["found ", search.ids.map((n) => numberButton(part, n))] : "found nothing";
  return [`Searched for “${search.query}”: `, search.error ? `failed: ${search.error}` : found, "."];
}

const SATISFIED = new Map([
  [true, "Satisfied with its answer."],
  [false, "Not satisfied with its answer."],
  [null, "Asked whether it is satisfied; the reply could not be parsed."],
]);
const DECLINED = { no_found: "Found nothing helpful in the pool.", none: "Selected nothing: no number could be parsed." };

function selectionWords(selection, part) {
  const cut = cutWords(selection);
  if (!selection.ids?.length) {
    return [DECLINED[selection.rule] ?? "Selection failed.", selection.error && ` ${selection.error}`, cut];
  }
  const dropped = selection.dropped?.length ? `; ${ids(selection.dropped)} beyond the limit` : "";
  return ["Chose ", selection.ids.map((n) => numberButton(part, n)), dropped, cut];
}

/** The text of a reply, or its error. `write` makes the nodes of a line. */
const reply = (said, write) => [
  cutWords(said),
  said.error ? prose(said.error, "error") : prose(said.reason || said.text, "prose", write),
];

function cutWords({ truncated: cut, max_tokens: limit }) {
  if (!cut && !limit) return null;
  const parts = [cut?.stances && plural(cut.stances, "stance"), cut?.passages?.length && `passages ${ids(cut.passages)}`];
  return el(
    "span",
    { class: "note" },
    cut && ` Prompt too long: ${parts.filter(Boolean).join(" and ")} left out.`,
    limit && ` Context window full: reply limited to ${plural(limit, "token")}.`,
  );
}

function verdictPart(verdict) {
  const found = { true: "consensus", false: "no consensus" }[verdict.consensus] ?? "no verdict";
  const held = [verdict.side && `sides with ${verdict.side}`, verdict.answer && `answer ${verdict.answer}`].filter(
    Boolean,
  );
  return aside(["Judge: ", el("b", {}, found), held.map((each) => `, ${each}`)], verdict);
}

function finalPart(part) {
  const { record } = part;
  const { final } = record;
  const tie = final.tie && (final.by === "summarizer" ? ", the debate ended split" : ", tie broken by order");
  const whose = final.agent ? [", ", agentName(final.agent)] : null;
  const write = (line) => cited(line, part, record.answer);
  const status = record.status === "abstained" ? (final.status ?? record.status) : record.status;
  return [
    el(
      "p",
      { class: isSplit(record) ? "who line split" : "who line" },
      given(record, record.answer, status, final.citations && write),
      el("span", { class: "facts" }, "by ", final.by.replaceAll("_", " "), whose, tie),
    ),
    record.deferral && el("p", { class: "note" }, `Deferred: ${record.deferral.reason}. It would have answered ${record.deferral.answer}.`),
    final.scores && el("p", { class: "note" }, `Weights: ${weights(final.scores)}.`),
    reply(final, write),
    callsPart(record, ofFinal),
    agreementPart(part),
  ];
}

const COLUMNS = {
  calls: "calls",
  paid: "paid",
  failed: "failed",
  retries: "retries",
  prompt_tokens: "prompt tokens",
  distinct_tokens: "distinct prompt tokens",
  cached_tokens: "cached prompt tokens",
  completion_tokens: "completion tokens",
  reasoning_tokens: "reasoning tokens",
  server_cut: "prompts cut by the server",
  not_utf8: "replies not in UTF-8",
  bound: "bound by a schema",
};

function usagePart(record) {
  const stages = Object.entries(record.usage ?? {});
  if (stages.length === 0) return null;
  const columns = Object.entries(COLUMNS).filter(([name]) => name === "calls" || stages.some(([, used]) => used[name]));
  const heads = ["stage", ...columns.map(([, title]) => title)].map((title) => el("th", { scope: "col" }, title));
  const line = ([stage, used]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, stage),
      columns.map(([name]) => el("td", {}, figure(used[name] ?? 0))),
    );
  const table = el("table", {}, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, stages.map(line)));
  return el(
    "details",
    { class: "usage" },
    el("summary", {}, el("h3", {}, "Tokens by stage")),
    el("div", { class: "scroll" }, table),
    stages.some(([, used]) => used.estimated) && el("p", { class: "note" }, "Some token counts are estimates."),
  );
}
