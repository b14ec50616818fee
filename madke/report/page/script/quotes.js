// Which sentences of a passage a reply quotes.

const UNSPACED = String.raw`\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}`;
const WORD = new RegExp(String.raw`[${UNSPACED}]|[[\p{L}\p{M}\p{N}]--[${UNSPACED}]]+`, "gv");
const CHARACTER = new RegExp(`^[${UNSPACED}]$`, "v");
const SENTENCES = new Intl.Segmenter(undefined, { granularity: "sentence" });

// Lengths count a word as 5, and a character of a script without spaces as 3.
const LEAST_RUN = 30; // 6 words: see docs/report.md for the measurement.
const LEAST_SENTENCE = 15;

/** Words without case, punctuation, spaces and kinds of quotation marks. */
const wordsOf = (text) => printable(text).normalize("NFKC").toLowerCase().match(WORD) ?? [];
const lengthOf = (word) => (CHARACTER.test(word) ? 3 : 5);

/** The shortest run of words from each word on that is long enough. */
function runsOf(words) {
  const found = [];
  for (let from = 0; from < words.length; from += 1) {
    let length = 0;
    let to = from;
    while (length < LEAST_RUN && to < words.length) length += lengthOf(words[to++]);
    if (length < LEAST_RUN) break;
    found.push(words.slice(from, to).join(" "));
  }
  return found;
}

/**
 * A test of whether a reply quotes a sentence: it contains the whole sentence or a long run of its words.
 * Words of the question are no quote: replies and passages both repeat them.
 */
function quoting(question, reply) {
  const words = wordsOf(reply);
  const whole = ` ${words.join(" ")} `;
  const runs = new Set(runsOf(words));
  for (const run of runsOf(wordsOf(question))) runs.delete(run);
  return (sentence) => {
    const own = wordsOf(sentence);
    const length = own.reduce((sum, word) => sum + lengthOf(word), 0);
    const repeated = length >= LEAST_SENTENCE && whole.includes(` ${own.join(" ")} `);
    return repeated || runsOf(own).some((run) => runs.has(run));
  };
}

/** A passage's text as nodes. Sentences that replies quote are marked with the names of those who quote them. */
function withQuotes(text, replies) {
  return Array.from(SENTENCES.segment(printable(text).trim()), ({ segment }) => {
    const by = replies.filter((reply) => reply.quotes(segment)).map((reply) => reply.by);
    if (by.length === 0) return segment;
    const sentence = segment.trimEnd();
    return [el("mark", { title: `quoted by ${by.join("; ")}` }, sentence), segment.slice(sentence.length)];
  });
}
