// The map of a disagreement: all answers of a debate, what says so, and what changed minds.

/** The map of a debate in which several answers were given, folded; null for others. */
function conflictsPart(part) {
  const { map } = part.record;
  if (!map) return null;
  const links = (ids) => ids.map((n) => [" ", numberButton(part, n)]);
  const names = (agents) => agents.join(", ");
  const line = (...children) => el("li", { class: "line" }, children);
  const quoted = (quotes) => [...new Set(quotes.map(({ text }) => text))].map((text) => [" ", el("q", { dir: "auto" }, text)]);
  const held = ({ agent, rounds }) => `${agent} in round${rounds.length > 1 ? "s" : ""} ${rounds.join(", ")}`;
  const stands = ({ containing, sources }) =>
    containing && (containing.length > 0 ? ["; stands in", links(containing), ` of ${names(sources)}`] : "; stands in no passage");
  const position = (each) =>
    line(
      given(part.record, each.answer),
      el("span", { class: "facts" }, " ", each.held.map(held).join("; "), stands(each)),
      quoted(each.quotes),
    );
  const contradiction = ({ answers, passages }) =>
    line("Passages differ: ", answers.map((answer, n) => [n > 0 && " against ", shortened(answer), links(passages[n])]));
  const why = ({ read, passages }) => {
    const causes = [read.length > 0 && `${names(read)} had said so`, passages.length > 0 && [links(passages), " says so"]].filter(Boolean);
    return causes.length > 0 ? causes.map((cause, n) => [n > 0 && " and ", cause]) : "nothing that it newly read says so";
  };
  const change = (each) =>
    line(`${each.change.agent} changed in round ${each.change.round}: `, shortened(each.change.before), " → ", shortened(each.change.after), "; ", why(each));
  return el(
    "details",
    { class: "folded conflicts" },
    el("summary", {}, `${plural(map.positions.length, "answer")} in this debate`),
    el(
      "ul",
      {},
      map.positions.map(position),
      map.contradictions.map(contradiction),
      map.changes.map(change),
    ),
  );
}
