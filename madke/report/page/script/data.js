// The page's data: compressed blocks of JSON, unpacked on demand.

const KEPT_BLOCKS = 24;

async function unpack(id) {
  const packed = atob(byId(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let n = 0; n < packed.length; n += 1) bytes[n] = packed.charCodeAt(n);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

const index = await unpack("index");
const blocks = new Map();

/** Item `number` of the blocks "debates" or "texts". */
async function stored(kind, number) {
  const size = index.sizes[kind];
  const id = `${kind}-${Math.floor(number / size)}`;
  const block = blocks.get(id) ?? unpack(id);
  // Least recently used blocks come first and are dropped first.
  blocks.delete(id);
  blocks.set(id, block);
  if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
  return (await block)[number % size];
}

/** The record of a debate, with the passages of its pool. */
async function debate(number) {
  const body = await stored("debates", number);
  const texts = await Promise.all(body.texts.map((text) => (text === null ? null : stored("texts", text))));
  return { ...body, texts };
}

const { runs, questions, debates } = index;
const outcomes = Object.keys(index.outcomes);

const bits = Object.fromEntries(outcomes.map((name, n) => [name, 1 << n]));
const exclusive = outcomes.filter((name) => name in MARKS); // Those of which a debate has one.

const outcome = (number) => exclusive.find((name) => debates.outcomes[number] & bits[name]) ?? "unknown";
const MISSED = ["wrong", "partly", "abstained", "unread"]; // Answered, but not right.

function is(number, name) {
  if (name === "missed") return MISSED.includes(outcome(number));
  return name === "unknown" ? outcome(number) === name : Boolean(debates.outcomes[number] & bits[name]);
}

for (const run of runs) {
  run.debates = Array.from({ length: run.count }, (_, n) => run.first + n);
  run.debates.sort((a, b) => debates.question[a] - debates.question[b] || debates.repeat[a] - debates.repeat[b]);
  run.byQuestion = new Map(run.debates.map((number) => [debates.question[number], []]));
  for (const number of run.debates) run.byQuestion.get(debates.question[number]).push(number);
}

const runNamed = (name) => runs.find((run) => run.name === name);

/** A run's debate on a question: this repeat, or else the first. */
function debateOn(run, question, repeat = 0) {
  const found = run.byQuestion.get(question) ?? [];
  return found.find((number) => debates.repeat[number] === repeat) ?? found[0] ?? null;
}

/** The debates of all runs on a question. */
const onQuestion = (question) => runs.flatMap((run) => run.byQuestion.get(question) ?? []);

/** A run's debate on the same question as debate `number`. */
const counterpart = (run, number) => run && debateOn(run, debates.question[number], debates.repeat[number]);

/** A run's debate by question id and repeat; the first repeat, or null, if missing. */
function debateOf(run, id, repeat) {
  const found = run.debates.filter((number) => questions.id[debates.question[number]] === id);
  return found.find((number) => debates.repeat[number] === repeat) ?? found[0] ?? null;
}

const runOf = (number) => runs.find((run) => number >= run.first && number < run.first + run.count);

/** The URL of a debate, with the filters of the list for the previous and next debate. */
function address(number) {
  const run = runOf(number);
  const parts = partsOf(filters, true);
  if (debates.repeat[number] > 0) parts.set("repeat", debates.repeat[number]);
  const path = [run.name, questions.id[debates.question[number]]].map(encodeURIComponent).join("/");
  return `#${path}${parts.size ? `?${parts}` : ""}`;
}
