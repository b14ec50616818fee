"""What tells a protocol from the others, in one line, from its settings alone; the docs use the same words."""

import re
from collections.abc import Iterator, Mapping

from madke.engine.protocol import Protocol

_PASSAGES: Mapping[str, str] = {
    "adaptive": "chosen passages",
    "all": "all passages",
    "one_each": "a passage each",
    "none": "no passages",
}

STOP_WORDS: Mapping[str, str] = {
    "never": "",
    "judge": "a judge may end it",
    "agreement": "until {share} agree",
    "agreement_then_judge": "until {share} agree or a judge ends it",
    "satisfied": "until satisfied",
    "stability": "until no answer changes",
    "budget": "until the tokens are used",
}
"""``Protocol.stop`` -> when a debate may end early; empty: never."""

FINISH_WORDS: Mapping[str, str] = {
    "summarizer": "a summary",
    "majority": "the majority",
    "judge_extract": "the judge's answer",
    "judge_pick": "the answer that the judge picks",
    "convergence": "the answer most like the others",
    "rerank": "the best score",
    "weighted": "votes weighted by confidence",
    "only": "the last debater's answer",
    "agreed_or_summarizer": "their answer, else a summary",
}
"""``Protocol.finish`` -> whose answer counts."""

_AUTHORS_AND_YEAR = re.compile(r"(after )?[\w -]+ et al\., \d{4}|[^,;:(]*")


def protocol_line(protocol: Protocol) -> str:
    """Who answers with which passages, how they talk, when it ends, whose answer counts, and the paper in brackets."""
    answer = "" if len(protocol.cast) == 1 else f"; {FINISH_WORDS[protocol.finish]}"
    source = _AUTHORS_AND_YEAR.match(protocol.source)
    whose = source[0].strip() if source else ""
    return f"{', '.join(_debate(protocol))}{answer}{f' ({whose})' if whose else ''}"


def _debate(protocol: Protocol) -> Iterator[str]:
    count, groups = len(protocol.cast), protocol.talk.groups
    alone = protocol.samples or (protocol.rounds == 1 and protocol.sees.peers == "none")
    noun = "sample" if alone else "debater"
    yield "1 debater" if count == 1 else f"{count} {noun}s"
    if groups:
        yield f"{'asked' if alone else 'in layers of'} {', '.join(map(str, groups))}"
    if any(debater.prepare for debater in protocol.cast):
        yield "some with notes"
    if any(debater.persona for debater in protocol.cast):
        yield "each with a role"
    if protocol.knowledge is not None:
        searches = protocol.knowledge.allow_search
        yield f"{_PASSAGES[protocol.knowledge.select]}{' and own searches' if searches else ''}"
    if protocol.rounds > 1 and not groups:
        yield f"{'' if protocol.stop == 'never' else 'up to '}{protocol.rounds} rounds"
        yield from _talk(protocol)
    if protocol.marker == "alone":
        yield "no reasons"
    if early := early_end(protocol):
        yield early


def early_end(protocol: Protocol) -> str:
    """When the debate may end before its last round; empty: never."""
    share = "all" if protocol.agreement_share == 1 else f"{protocol.agreement_share:.0%}"
    return STOP_WORDS[protocol.stop].format(share=share)


def _talk(protocol: Protocol) -> Iterator[str]:
    if protocol.first_round_given:
        yield "round 1 from elsewhere"
    if protocol.talk.later == "sequential":
        yield "in turn"
    if protocol.sees.peers in ("history", "answers"):
        yield {"history": "all is read", "answers": "only answers are read"}[protocol.sees.peers]
    if protocol.order.by == "madc":
        yield "the most agreed read last"
