// The view of one debate.

/** The sorted debaters. The position determines the colour. */
function cast(record) {
  const names = new Set(record.rounds.flatMap((round) => round.turns.map((turn) => turn.agent)));
  return [...names].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

const agentName = (names, agent) => el("span", { class: `agent a${names.indexOf(agent) % 8}`, dir: "auto" }, agent);

function score(record, answer) {
  const value = record.scores[answer];
  return value === undefined ? "unknown" : value === 1 ? "right" : value === 0 ? "wrong" : "partly";
}

function given(record, answer, status = "ok") {
  if (answer === null || answer === undefined) return mark(status === "failed" ? "failed" : "abstained");
  const kind = score(record, answer);
  const said = el("span", { class: "answer", dir: "auto" }, answer);
  return el("span", { class: "given" }, kind === "unknown" ? null : mark(kind, false), said);
}

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
  return [
    record.choices && el("ol", { class: "choices" }, record.choices.map(choice)),
    golds.length > 0 && el("p", { class: "golds" }, el("span", { class: "label" }, "Gold"), golds),
  ];
}

/** One run's debate: its outcome, pool, rounds, final answer and costs. */
function debatePart(number, record) {
  const names = cast(record);
  const passages = new Map();
  const show = (n) => {
    passages.get(n)?.closest("details").setAttribute("open", "");
    passages.get(n)?.scrollIntoView({ block: "center" });
    passages.get(n)?.focus({ preventScroll: true });
  };
  return el(
    "article",
    { class: "debate" },
    outcomePart(number, record),
    knowledgePart(record, names, passages, runOf(number).texts),
    preparedPart(record, names),
    record.rounds.map((round, n) => roundPart(record, round, record.rounds[n - 1], names, show)),
    finalPart(record, names),
    usagePart(record),
  );
}

function outcomePart(number, record) {
  const spent = spentOn(number, "rounds", "calls", "tokens");
  const facts = spent.length ? [`ended by: ${record.stop_reason}`, ...spent] : ["from a prediction file"];
  return el(
    "header",
    { class: "result" },
    el(
      "p",
      { class: "answered" },
      el("span", { class: "label" }, "Answer"),
      answered(number),
      mark(outcome(number)),
      flagsOf(number),
    ),
    el("p", { class: "facts" }, facts.join(" · ")),
    record.oracle && el("p", { class: "note" }, index.outcomes.oracle),
  );
}

const TEXTS = {
  missing: "The pool file of this run is missing, so only titles are shown.",
  changed: "The pool file of this run has changed since the run, so only titles are shown.",
};

function knowledgePart(record, names, passages, held) {
  const pool = record.pool ?? [];
  const partial = Object.entries(record.pool_partial ?? {});
  const failed = partial.map(([source, why]) => el("p", { class: "note" }, `${source} failed: ${why}`));
  if (pool.length === 0) return failed.length ? el("section", {}, el("h3", {}, "Knowledge"), failed) : null;
  const chosen = new Map(pool.map((entry) => [entry.n, new Map()]));
  for (const round of record.rounds) {
    for (const turn of round.turns) {
      for (const n of turn.selection?.ids ?? []) {
        const by = chosen.get(n);
        if (by) by.set(turn.agent, [...(by.get(turn.agent) ?? []), round.n]);
      }
    }
  }
  const used = [...chosen.values()].filter((by) => by.size > 0).length;
  const rows = pool.map((entry, place) => {
    const made = passagePart(entry, record.texts[place] ?? null, chosen.get(entry.n), names);
    passages.set(entry.n, made);
    return made;
  });
  const asked = record.rounds.some((round) => round.turns.some((turn) => turn.selection));
  const heading = `${plural(pool.length, "passage")}${asked ? `, ${used} chosen` : ""}`;
  return el(
    "details",
    { class: "knowledge", open: true },
    el("summary", {}, el("h3", {}, "Knowledge"), el("span", { class: "facts" }, heading)),
    TEXTS[held] && el("p", { class: "note" }, TEXTS[held]),
    failed,
    el("ol", {}, rows),
  );
}

function passagePart(entry, text, by, names) {
  const [words, url, date] = text ?? [null, null, null];
  const link = url ?? (/^https?:/.test(entry.key) ? entry.key : null);
  const origin = [
    el("span", { class: "source" }, entry.source),
    link ? webLink(link) : el("span", { class: "key" }, entry.key),
    date && el("span", {}, date),
    entry.asked_by &&
      el("span", {}, `found by ${entry.asked_by} in round ${entry.round}, searching for “${entry.query}”`),
  ];
  const choosers = [...by].sort(([a], [b]) => names.indexOf(a) - names.indexOf(b));
  const when = (rounds) => `${rounds.length > 1 ? "rounds" : "round"} ${rounds.join(", ")}`;
  const chips = choosers.map(([agent, rounds]) =>
    el("span", { class: "chip" }, agentName(names, agent), el("span", {}, when(rounds))),
  );
  return el(
    "li",
    { class: by.size ? "passage chosen" : "passage", tabindex: "-1" },
    el("span", { class: "number" }, `[${entry.n}]`),
    el(
      "div",
      {},
      el("p", { class: "title", dir: "auto" }, entry.title || "untitled"),
      el("p", { class: "origin" }, origin),
    ),
    chips.length > 0 && el("p", { class: "chips" }, el("span", { class: "unseen" }, "chosen by "), chips),
    clamped(words),
  );
}

/** A passage's text: its first lines, with a button for the rest. */
function clamped(words) {
  if (!words) return null;
  const text = paragraph(words, "text");
  if (words.length < 300) return text;
  text.classList.add("clamped");
  return [text, moreButton((open) => text.classList.toggle("clamped", !open))];
}

function preparedPart(record, names) {
  const texts = Object.entries(record.prepared ?? {}).flatMap(([agent, stages]) =>
    Object.entries(stages).map(([stage, text]) => folded([agentName(names, agent), ` prepares ${stage}`], text)),
  );
  return texts.length > 0 && el("section", { class: "round" }, el("h3", {}, "Before the debate"), texts);
}

function folded(title, text) {
  if (!text) return el("p", { class: "note" }, title);
  return el("details", { class: "folded" }, el("summary", {}, title), prose(text));
}

function roundPart(record, round, before, names, show) {
  const spoke = round.turns.map((turn) => turn.agent);
  const notes = [
    record.first_round_given && round.n === 1 && "Stances from a file.",
    round.order.join() !== spoke.join() && `Read in the order ${round.order.join(", ")}.`,
    round.scores && `Path consistency: ${weights(round.scores)}.`,
  ];
  return el(
    "section",
    { class: "round" },
    el("h3", {}, `Round ${round.n}`),
    notes.filter(Boolean).map((note) => el("p", { class: "note" }, note)),
    el(
      "div",
      { class: "turns" },
      round.turns.map((turn) => turnPart(record, round, turn, before, names, show)),
    ),
    round.verdict && verdictPart(round.verdict),
    round.extracted &&
      aside(["Answer extracted so far: ", given(record, round.extracted.answer, round.extracted.status)], round.extracted),
    round.digest && aside("Summary for the next round", round.digest),
  );
}

/** A reply of another role after a round. */
const aside = (title, said) => el("div", { class: "aside" }, el("p", { class: "who" }, title), reply(said));

function weights(scores) {
  const one = ([name, value]) => `${name} ${Number(value.toPrecision(4))}`;
  return Object.entries(scores).map(one).join(", ");
}

function turnPart(record, round, turn, before, names, show) {
  const { stance, selection, search, reflection } = turn;
  const earlier = before?.turns.find((one) => one.agent === turn.agent)?.stance.answer ?? null;
  const changed = earlier !== null && stance.answer != null && earlier !== stance.answer;
  const read = [...new Set(turn.reads ?? [])];
  const usual = round.order.filter((name) => name !== turn.agent).join() === read.join();
  return el(
    "section",
    { class: `turn a${names.indexOf(turn.agent) % 8}` },
    el("h4", {}, agentName(names, turn.agent), given(record, stance.answer, stance.status)),
    changed && el("p", { class: "note" }, "changed from ", el("s", { dir: "auto" }, earlier)),
    selection && el("p", { class: "selection" }, selectionWords(selection, show)),
    search && el("p", { class: "note" }, searchWords(search)),
    read.length > 0 && !usual && el("p", { class: "note" }, `Read ${read.join(", ")}.`),
    typeof stance.confidence === "number" && el("p", { class: "note" }, `Confidence ${stance.confidence}.`),
    reply(stance),
    selection?.text && folded("Selection in full", selection.text),
    reflection && [el("p", { class: "note" }, SATISFIED.get(reflection.satisfied)), reply(reflection)],
  );
}

function searchWords(search) {
  const found = search.ids?.length ? `found ${ids(search.ids)}` : "found nothing";
  return `Searched for “${search.query}”: ${search.error ? `failed: ${search.error}` : found}.`;
}

const SATISFIED = new Map([
  [true, "Satisfied with its answer."],
  [false, "Not satisfied with its answer."],
  [null, "Asked whether it is satisfied; the reply could not be parsed."],
]);
const DECLINED = { no_found: "Found nothing helpful in the pool.", none: "Selected nothing: no number could be parsed." };

function selectionWords(selection, show) {
  const cut = cutWords(selection.truncated);
  if (!selection.ids?.length) {
    return [DECLINED[selection.rule] ?? "Selection failed.", selection.error && ` ${selection.error}`, cut];
  }
  const pick = (n) =>
    el("button", { type: "button", class: "pick", title: `show passage ${n}`, click: () => show(n) }, `[${n}]`);
  const dropped = selection.dropped?.length ? `; ${ids(selection.dropped)} beyond the limit` : "";
  return ["Chose ", selection.ids.map(pick), dropped, cut];
}

/** The text of a reply, or its error. */
const reply = (said) => [cutWords(said.truncated), said.error ? prose(said.error, "error") : prose(said.reason || said.text)];

function cutWords(cut) {
  if (!cut) return null;
  const parts = [cut.stances && plural(cut.stances, "stance"), cut.passages?.length && `passages ${ids(cut.passages)}`];
  return el("span", { class: "note" }, ` Prompt too long: ${parts.filter(Boolean).join(" and ")} left out.`);
}

function verdictPart(verdict) {
  const found = { true: "consensus", false: "no consensus" }[verdict.consensus] ?? "no verdict";
  const held = [verdict.side && `sides with ${verdict.side}`, verdict.answer && `answer ${verdict.answer}`].filter(
    Boolean,
  );
  const word = el("b", { class: verdict.consensus ? "settled" : "open" }, found);
  return aside(["Judge: ", word, held.map((each) => `, ${each}`)], verdict);
}

function finalPart(record, names) {
  const { final } = record;
  const tie = final.tie && (final.by === "summarizer" ? ", the debate ended split" : ", tie broken by order");
  const whose = final.agent ? [", ", agentName(names, final.agent)] : null;
  return el(
    "section",
    { class: "round final" },
    el("h3", {}, "Final answer"),
    el(
      "p",
      { class: "who" },
      given(record, record.answer, record.status),
      el("span", { class: "facts" }, "by ", final.by.replaceAll("_", " "), whose, tie),
    ),
    final.scores && el("p", { class: "note" }, `Weights: ${weights(final.scores)}.`),
    reply(final),
  );
}

const COLUMNS = {
  calls: "calls",
  paid: "paid",
  failed: "failed",
  retries: "retries",
  prompt_tokens: "prompt tokens",
  cached_tokens: "cached prompt tokens",
  completion_tokens: "completion tokens",
  reasoning_tokens: "reasoning tokens",
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
