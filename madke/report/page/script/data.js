// The page's data: blocks of JSON, compressed, unpacked when something in them is shown.

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

/** Item `number` of a kind of blocks: "debates" or "texts". */
async function stored(kind, number) {
  const size = index.sizes[kind];
  const id = `${kind}-${Math.floor(number / size)}`;
  const block = blocks.get(id) ?? unpack(id);
  // The block that was used last stands last; the first one goes when there are too many.
  blocks.delete(id);
  blocks.set(id, block);
  if (blocks.size > KEPT_BLOCKS) blocks.delete(blocks.keys().next().value);
  return (await block)[number % size];
}

/** A debate's whole record, with the passages of its pool. */
async function debate(number) {
  const body = await stored("debates", number);
  const texts = await Promise.all(body.texts.map((text) => (text === null ? null : stored("texts", text))));
  return { ...body, texts };
}

const { runs, questions, debates } = index;
const outcomes = Object.keys(index.outcomes);

const is = (number, outcome) => Boolean(debates.outcomes[number] & (1 << outcomes.indexOf(outcome)));
const outcome = (number) => outcomes.slice(0, 5).find((name) => is(number, name)) ?? "unknown";

for (const run of runs) {
  run.debates = Array.from({ length: run.count }, (_, n) => run.first + n);
  run.debates.sort((a, b) => debates.question[a] - debates.question[b] || debates.repeat[a] - debates.repeat[b]);
  run.byQuestion = new Map(run.debates.map((number) => [debates.question[number], []]));
  for (const number of run.debates) run.byQuestion.get(debates.question[number]).push(number);
}

const runNamed = (name) => runs.find((run) => run.name === name);

/** A run's debate on the question of another run's debate: the same repeat, else the first. */
function counterpart(run, number) {
  const found = run?.byQuestion.get(debates.question[number]) ?? [];
  return found.find((other) => debates.repeat[other] === debates.repeat[number]) ?? found[0] ?? null;
}

/** A run's debate by question id and repeat; null where there is none. */
function debateOf(run, id, repeat) {
  const found = run.debates.filter((number) => questions.id[debates.question[number]] === id);
  return found.find((number) => debates.repeat[number] === repeat) ?? found[0] ?? null;
}

/** Whether two runs' debates on a question came out differently. */
function differ(one, other) {
  return other !== null && (outcome(one) !== outcome(other) || debates.answer[one] !== debates.answer[other]);
}

const runOf = (number) => runs.find((run) => number >= run.first && number < run.first + run.count);

/** The address of a debate within the page; it says what the list was filtered by, for the debates before and after. */
function address(number, beside = null) {
  const run = runOf(number);
  const parts = new URLSearchParams(narrowed(chosen()));
  if (debates.repeat[number] > 0) parts.set("repeat", debates.repeat[number]);
  if (beside) parts.set("with", beside.name);
  const path = [run.name, questions.id[debates.question[number]]].map(encodeURIComponent).join("/");
  return `#${path}${parts.size ? `?${parts}` : ""}`;
}
