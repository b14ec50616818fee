// Who agrees at the end of a debate, and what was looked up.

const BY = { judge: "the judge", matcher: "the task's matcher", vote: "a vote" };

/** Whether the debate ended with different answers. */
const isSplit = ({ agreement }) => agreement?.outcome === "split";

/** How the debate ended, in words; null for a single debater. */
function agreementWords({ agreement }) {
  if (!agreement || agreement.outcome === "single") return null;
  if (agreement.positions?.length === 0) return "no answer of any debater";
  const silent = agreement.silent ?? [];
  const words = [isSplit({ agreement }) ? "no consensus" : "consensus", `found by ${BY[agreement.by]}`];
  if (!isSplit({ agreement }) && !agreement.same && silent.length === 0) words.push("the answers differ under the task's matcher");
  return words.join(", ") + (silent.length > 0 ? `; no readable answer from ${silent.join(", ")}` : "");
}

const LOOKED_UP = {
  found: "found",
  approximate: "found with another spelling",
  misattributed: "not there, but in",
  stitched: "put together from",
  not_found: "not found",
  too_short: "too short to look up",
};

/** The answers of the last round, with who supports each, where it stands and what was quoted for it. */
function agreementPart(part) {
  const { agreement } = part.record;
  const words = agreementWords(part.record);
  const positions = agreement?.positions ?? [];
  if (words === null && !positions.some(({ quotes }) => quotes?.length)) return null;
  const links = (ids) => ids.map((n) => [" ", numberButton(part, n)]);
  const where = ({ passages, containing }) => {
    if (!passages?.length) return null;
    const none = "; none contains the answer";
    const stands = containing && (containing.length > 0 ? ["; the answer appears in", links(containing)] : none);
    return el("span", { class: "line" }, " read", links(passages), stands);
  };
  const quoted = ({ agent, text, passage, status, found_in: places }) =>
    el(
      "li",
      { class: `line quote ${status}` },
      el("q", { dir: "auto" }, text),
      passage != null && [" ", numberButton(part, passage)],
      ` ${agent}: ${LOOKED_UP[status]}`,
      ["misattributed", "stitched"].includes(status) && links(places),
    );
  const position = (each) =>
    el(
      "li",
      {},
      given(part.record, each.answer),
      el("span", { class: "facts" }, " ", each.supporters.join(", "), where(each)),
      each.quotes?.length > 0 && el("ul", {}, each.quotes.map(quoted)),
    );
  return el(
    "div",
    { class: isSplit(part.record) ? "agreement split" : "agreement" },
    words && el("p", { class: "note" }, `Ended with ${words}.`),
    el("ul", {}, positions.map(position)),
  );
}
