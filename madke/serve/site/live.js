// A debate that goes on: its record grows with the events, and the report's view of it follows.

const LEAST = 150; // Milliseconds between two drawings.

/** A record without rounds, in the form of a transcript. */
const emptyRecord = (question) => ({ question, answers: [], rounds: [], pool: [], texts: [], scores: {}, gold: [], answer: null });

function turnOf(record, n, agent) {
  const turns = record.rounds[n - 1].turns;
  let turn = turns.find((each) => each.agent === agent);
  if (!turn) turns.push((turn = { agent, stance: { status: "waiting" } }));
  return turn;
}

/** What each event adds to the record of a debate between the debaters of `cast`. */
const HEARD = {
  PoolReady(record, { pool, texts, partial }) {
    Object.assign(record, { pool, texts, pool_partial: partial });
  },
  RoundStarted(record, { n }, cast) {
    record.rounds[n - 1] = { n, order: cast, turns: cast.map((agent) => ({ agent, stance: { status: "waiting" } })) };
  },
  CallStarted(record, { stage, agent, n }) {
    if (SPEAKS.includes(stage) && record.rounds[n - 1]) turnOf(record, n, agent).stance = { status: "waiting", text: "" };
  },
  CallDelta(record, { stage, agent, n, text }) {
    const stance = SPEAKS.includes(stage) && record.rounds[n - 1] && turnOf(record, n, agent).stance;
    if (stance && stance.status === "waiting") stance.text = shownReply((stance.said = (stance.said ?? "") + text));
  },
  SelectionMade(record, { n, agent, selection }) {
    turnOf(record, n, agent).selection = selection;
  },
  SearchMade(record, { n, agent, search }) {
    turnOf(record, n, agent).search = search;
  },
  StanceGiven(record, { n, agent, stance }) {
    turnOf(record, n, agent).stance = stance;
  },
  VerdictGiven(record, { n, verdict }) {
    record.rounds[n - 1].verdict = verdict;
  },
  RoundEnded(record, { round }) {
    record.rounds[round.n - 1] = round;
  },
  DebateFinished(record, { transcript }) {
    const texts = new Map(record.pool.map((entry, place) => [`${entry.source} ${entry.key}`, record.texts[place]]));
    Object.assign(record, { rounds: [], pool: [] }, transcript);
    record.answers ??= [];
    record.texts = record.pool.map(({ source, key }) => texts.get(`${source} ${key}`) ?? null);
  },
};

const SPEAKS = ["speak", "reply"];

/** A reply as far as it was streamed, unless it begins with hidden reasoning. */
const shownReply = (said) => ("<think".startsWith(said.trimStart().slice(0, 6)) ? "" : said);

const WORDS = {
  select: "chooses passages",
  speak: "answers",
  reply: "answers",
  reflect: "reviews its answer",
  judge: "compares the answers",
  digest: "sums up the round",
  summarize: "gives the final answer",
};

/** A role in a sentence: debaters have names, the judge has none. */
const whose = (agent) => (/^\p{Ll}/u.test(agent) ? `the ${agent}` : agent);

/** What an event means, in words; null if it is not worth a word. */
function inWords(event) {
  switch (event.event) {
    case "PoolReady":
      return `${plural(event.pool.length, "passage")} found.`;
    case "RoundStarted":
      return `Round ${event.n} begins.`;
    case "CallStarted":
      return WORDS[event.stage] ? `Round ${event.n}: ${whose(event.agent)} ${WORDS[event.stage]}.` : null;
    case "StanceGiven":
      return `${event.agent} answers${event.stance.answer ? `: ${event.stance.answer}` : ""}.`;
    default:
      return null;
  }
}

/** A debate on the page, drawn again soon after each change. */
class Live {
  constructor(question, cast) {
    this.cast = cast;
    this.part = { run: { name: "" }, record: emptyRecord(question) };
    this.waiting = null;
    byId("live").replaceChildren();
    byId("strip").replaceChildren();
  }

  hear(event) {
    HEARD[event.event]?.(this.part.record, event, this.cast);
    this.waiting ??= setTimeout(() => this.draw(), LEAST);
  }

  /** Draw nothing more: the reader sees another page. */
  leave() {
    clearTimeout(this.waiting);
  }

  /** Draw the end, where nobody speaks any more. */
  stop() {
    const stances = this.part.record.rounds.flatMap(({ turns }) => turns.map(({ stance }) => stance));
    for (const stance of stances) if (stance.status === "waiting") stance.status = "stopped";
    this.draw();
  }

  draw() {
    clearTimeout(this.waiting);
    this.waiting = null;
    const { part } = this;
    if (part.record.rounds.length + part.record.pool.length === 0) return;
    fill(byId("live"), debateView(part));
    fill(byId("strip"), stripPart(part.record));
  }
}
