// Search of texts: what models wrote, then passages. Blocks are unpacked when first searched.

const PIECE = 12; // Milliseconds of work before the browser gets its turn.
const BEFORE = 30; // Characters of an excerpt before the word, and after it.
const AFTER = 150;

const searchable = { written: [], pools: [], passages: [], reading: new Map() };

/** What models wrote in a debate: pairs of a place and a text. */
function writtenIn(record) {
  const prepared = Object.entries(record.prepared ?? {}).flatMap(([agent, stages]) =>
    Object.values(stages).map((text) => [`${agent}, before the debate`, text]),
  );
  const rounds = record.rounds.flatMap((round) => {
    const by = (who, said) => [`${who}, round ${round.n}`, said?.text];
    const turns = round.turns.flatMap(({ agent, stance, selection, reflection }) =>
      [stance, selection, reflection].map((said) => by(agent, said)),
    );
    const remarks = (round.remarks ?? []).map((remark) => by(remark.role, remark));
    return [...turns, ...remarks, by("judge", round.verdict), by("summary", round.digest), by("answer", round.extracted)];
  });
  return [...prepared, ...rounds, ["final answer", record.final.text]].filter(([, text]) => text);
}

/** Read the block of item `number` once, and pass each of its items to `keep`. */
function readBlock(kind, number, keep) {
  const block = Math.floor(number / index.sizes[kind]);
  const id = `${kind}-${block}`;
  if (!searchable.reading.has(id)) {
    const first = block * index.sizes[kind];
    const read = unpack(id).then((items) => items.forEach((item, n) => keep(item, first + n)));
    searchable.reading.set(id, read);
  }
  return searchable.reading.get(id);
}

async function readWritten(number) {
  if (searchable.written[number] !== undefined) return;
  await readBlock("debates", number, (record, n) => {
    const texts = writtenIn(record).map(([, text]) => text);
    const titles = (record.pool ?? []).map(({ title }) => title);
    searchable.written[n] = texts.join("\n").toLowerCase();
    searchable.pools[n] = { titles: titles.join("\n").toLowerCase(), texts: record.texts };
  });
}

async function readPassages(number) {
  for (const text of searchable.pools[number].texts) {
    if (text === null || searchable.passages[text] !== undefined) continue;
    await readBlock("texts", text, ([words], n) => (searchable.passages[n] = words.toLowerCase()));
  }
}

const isWritten = (word, number) => searchable.written[number].includes(word);

function isInPassages(word, number, hits) {
  const { titles, texts } = searchable.pools[number];
  return titles.includes(word) || texts.some((n) => n !== null && (hits[n] ??= searchable.passages[n].includes(word)));
}

/**
 * Search the texts of items for all words, in pieces: first what models wrote, then passages as well.
 *
 * A word counts if the head of an item has it, or the texts of one of its debates. Each piece is the items found in it,
 * and the share of the work that is done.
 */
async function* searchTexts(items, words) {
  const hits = new Map(words.map((word) => [word, []])); // Passages that have the word. Runs share them.
  const stages = [
    [readWritten, isWritten],
    [readPassages, (word, number) => isWritten(word, number) || isInPassages(word, number, hits.get(word))],
  ];
  let [left, found, until] = [items, [], performance.now() + PIECE];
  for (const [stage, [read, has]] of stages.entries()) {
    const missed = [];
    for (const [place, item] of left.entries()) {
      const numbers = debatesOf(item);
      for (const number of numbers) await read(number);
      const all = words.every((word) => isInHead(word, item) || numbers.some((number) => has(word, number)));
      (all ? found : missed).push(item);
      if (performance.now() < until) continue;
      yield { found, share: (stage + place / left.length) / stages.length };
      found = [];
      await new Promise((resume) => setTimeout(resume));
      until = performance.now() + PIECE;
    }
    left = missed;
  }
  yield { found, share: 1 };
}

/** The text of these debates that has most of the words, cut around the first. */
async function excerpt(numbers, words) {
  const texts = [];
  for (const number of numbers) {
    const record = await debate(number);
    const textOf = ({ n, title }, place) => [`[${n}]`, `${title}: ${record.texts[place]?.[0] ?? ""}`];
    const pool = (record.pool ?? []).map(textOf);
    const run = numbers.length > 1 ? `${runOf(number).name}, ` : "";
    texts.push(...[...writtenIn(record), ...pool].map(([place, text]) => [run + place, text]));
  }
  const had = (text) => words.filter((word) => text.toLowerCase().includes(word));
  const [place, text] = texts.reduce((best, each) => (had(each[1]).length > had(best[1]).length ? each : best));
  const at = text.toLowerCase().indexOf(had(text)[0]);
  const from = at < BEFORE ? 0 : text.indexOf(" ", at - BEFORE) + 1;
  const cut = text.slice(Math.min(from, at), at + AFTER);
  const around = [from > 0 && "… ", marked(cut, words), at + AFTER < text.length && " …"];
  return [el("b", {}, place, ": "), around];
}

/** The text with the words marked. */
function marked(text, words) {
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const parts = text.split(new RegExp(`(${escaped.join("|")})`, "iu"));
  return parts.map((part, n) => (n % 2 ? el("mark", {}, part) : part));
}
