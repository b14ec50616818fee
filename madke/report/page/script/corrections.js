// Corrections that people make on the page of `madke report --serve`. A page from a file has none.

const token = document.documentElement.dataset.token ?? null;
let corrections = token ? await exchanged() : [];

/** The sheet's rows; with a row, after its change. */
async function exchanged(row = null) {
  const headers = { "X-Madke-Token": token };
  const sent = row ? { method: "POST", body: JSON.stringify(row) } : {};
  const answer = await fetch("/corrections", { headers, ...sent });
  if (!answer.ok) throw new Error(`the correction was not written (${answer.status})`);
  return answer.json();
}

/** The buttons of one debate: its answer is right, or the gold answer is wrong. */
function correctionPart(number, record) {
  if (token === null) return null;
  const place = el("p", { class: "correction", role: "status" });
  const of = (correction) => ({
    id: record.id,
    question: record.question,
    answer: correction === "right" ? record.answer : "",
    correction,
  });
  const isNoted = (row) => corrections.some((each) => Object.keys(row).every((name) => each[name] === row[name]));
  const button = (correction, words) => {
    const row = of(correction);
    const noted = isNoted(row);
    const change = async () => {
      try {
        corrections = await exchanged({ ...row, undo: noted });
        show();
      } catch (error) {
        place.replaceChildren(el("span", { class: "error" }, error.message));
      }
    };
    const attributes = { type: "button", class: "quiet", "aria-pressed": String(noted), click: change };
    return el("button", attributes, noted ? `✓ ${words} (undo)` : words);
  };
  const show = () => {
    const accepts = record.answer != null && !is(number, "right");
    place.replaceChildren(
      ...[accepts && button("right", "Actually right"), record.answers?.length && button("gold is wrong", "Gold is wrong")].filter(Boolean),
    );
  };
  show();
  return place;
}
