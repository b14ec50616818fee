"""Settings of a protocol that cannot work together."""

from collections.abc import Iterator

from madke.engine.protocol import RETRIEVER, STAGES, Knowledge, Protocol, readable_by, role_key


def conflicts(p: Protocol) -> Iterator[str]:
    """Why the settings cannot work together, one reason for each conflict."""
    yield from _conflicts_reading(p)
    yield from _conflicts_end(p)
    if p.knowledge is not None:
        yield from _conflicts_knowledge(p, p.knowledge)
    for stage in (stage for debater in p.cast for stage in debater.prepare if stage in STAGES):
        yield f"debaters.prepare: {stage!r} is the name of a built-in stage; choose another name"


def _conflicts_reading(p: Protocol) -> Iterator[str]:
    sees, order, n = p.sees, p.order, len(p.cast)
    summed_up = p.talk.later == "simultaneous_with_summary"
    if sees.peers == "latest" and "sequential" not in (p.talk.first, p.talk.later):
        yield "sees.peers = latest needs talk.first or talk.later = sequential"
    if p.talk.first == "sequential" and sees.peers in ("last_round", "answers"):
        yield "talk.first = sequential needs sees.peers = latest or history: round 1 has no previous round to read"
    if sees.form == "chat" and (sees.peers, sees.own) != ("history", "history"):
        yield "sees.form = chat needs sees.peers and sees.own = history"
    if sees.anonymous and summed_up:
        yield "sees.anonymous does not work with talk.later = simultaneous_with_summary: the summary names debaters"
    if readable_by(sees.topology, 0, n) is None:
        forms = f"full, ring, star, sparse(k) or a matrix of {n} x {n}"
        yield f"sees.topology: {sees.topology!r} is not a topology for {n} debaters; expected {forms}"
    sequential = p.talk.first == "sequential" or (p.rounds > 1 and p.talk.later == "sequential")
    read = p.rounds > 1 and p.sees.peers in ("last_round", "latest", "answers") and not summed_up
    if order.by != "fixed" and not read and not (sequential and order.by == "random"):
        yield f"order.by = {order.by} has no effect: debaters do not read each other, or only in order of time"
    if order.by != "madc" and order.decay != 1:
        yield "order.decay needs order.by = madc"
    if order.by != "madc" and order.score != "global":
        yield "order.score needs order.by = madc"
    if order.score == "per_reader" and order.decay != 1:
        yield "order.decay needs order.score = global"
    if order.rotate_personas and not any(debater.persona for debater in p.cast):
        yield "order.rotate_personas needs debaters with personas"


def _conflicts_end(p: Protocol) -> Iterator[str]:
    n = len(p.cast)
    if p.finish == "only" and n != 1:
        yield f"finish = only needs exactly one debater, found {n}"
    if p.finish in ("judge_pick", "agreed_or_summarizer") and n < 2:
        yield f"finish = {p.finish} needs at least two debaters"
    if p.stop in ("judge", "agreement", "agreement_then_judge") and n < 2:
        yield f"stop = {p.stop} needs at least two debaters"
    if (p.stop == "budget") != (p.token_budget is not None):
        yield "stop = budget and token_budget must be set together; one of them is missing"
    if p.extract != "unsettled" and p.finish != "judge_extract":
        yield f"extract = {p.extract} needs finish = judge_extract"
    if p.first_round_given and p.rounds < 2:
        yield "first_round_given needs rounds >= 2: the given stances are round 1"


def _conflicts_knowledge(p: Protocol, knowledge: Knowledge) -> Iterator[str]:
    names, passages = [debater.name for debater in p.cast], knowledge.pool_limit
    restricted = knowledge.per_debater_sources or {}
    if knowledge.select == "one_each":
        if len(names) < passages:
            needed = f"a debater for each of up to {passages} passages, found {len(names)}"
            yield f"knowledge.select = one_each needs {needed}"
        if restricted:
            yield "knowledge.per_debater_sources does not work with select = one_each: each debater has one passage"
        if not isinstance(p.sees.topology, str):
            yield "sees.topology: a matrix needs a fixed number of debaters; with select = one_each it varies"
    if knowledge.needs_retriever and RETRIEVER in map(role_key, names):
        yield f"knowledge.query and knowledge.rerank call the role {RETRIEVER!r}; give the debater another name"
    for name in (name for name in restricted if name not in names):
        yield f"knowledge.per_debater_sources: there is no debater {name!r}"
    for source in (source for sources in restricted.values() for source in sources if source not in knowledge.sources):
        yield f"knowledge.per_debater_sources: {source!r} is not among the sources"
