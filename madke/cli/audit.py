"""The findings of ``madke doctor --model NAME`` on one screen."""

from collections.abc import Iterator
from textwrap import shorten, wrap

from madke.audit import Findings, Share
from madke.audit.advice import advice
from madke.core.errors import count_of

_LABEL, _WIDTH = 24, 80


def audit_lines(found: Findings, address: str) -> Iterator[str]:
    """At most 24 lines of 80 columns, the last ones with the advice; longer texts are wrapped by the caller."""
    where = f" at {address}" if address else ""
    stopped = "" if found.complete else ", stopped early"
    yield f"{found.model}{where}"
    yield (
        f"{count_of(found.calls, 'call')}{stopped}, {found.failed} failed; {found.prompt_tokens:,} prompt and "
        f"{found.completion_tokens:,} new tokens; {found.seconds:.0f} s"
    )
    if found.failed == found.calls:
        yield from (f"error: {error}" for error in found.errors)
        yield from wrap(advice(found), _WIDTH)
        return
    if found.errors:
        yield shorten(f"error: {found.errors[0]}", _WIDTH, placeholder=" ...")
    yield ""
    stages = [f"{stage} {_of(share)}" for stage, share in found.form.items()]
    yield _row("replies read", ", ".join(stages[:3]))
    yield _row("", ", ".join(stages[3:]))
    yield _row("examples given back", _of(found.given_back, " answers"))
    yield _row("prompt repeated", f"{_of(found.repeated, ' replies')}; cut off: {_of(found.cut_off)}")
    first, last = _of(found.gold_first, " right"), _of(found.gold_last, " right")
    yield _row("right passage shown", f"first: {first}; last: {last}")
    yield _row("right, peer wrong", _of(found.stayed_right, " stay right"))
    yield _row("wrong, peer right", _of(found.became_right, " become right"))
    same, different = _of(found.same_found, " right"), _of(found.different_found, " right")
    yield _row("verdicts", f"same answers: {same}; different: {different}")
    yield _row("summaries", f"{_of(found.summary_right, ' right')}; first debater's: {_of(found.reported_first)}")
    longest = f"; the longest has {found.longest_prompt:,} tokens" if found.prompts_cut.n else ": no count of tokens"
    yield _row("prompts cut", _of(found.prompts_cut) + longest)
    yield _row("schemas", _of(found.schemas, " taken"))
    yield _row("seeds", _seeds(found))
    yield _row("system messages", _of(found.system, " followed"))
    yield _row("speed", _speed(found))
    yield _row("four calls at once", "not measured" if found.gain is None else f"{found.gain:.1f} times the tokens")
    yield _row("beginnings kept", _kept(found))
    yield ""
    yield from wrap(advice(found), _WIDTH)


def _row(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{text}"


def _of(share: Share, after: str = "") -> str:
    return f"{share.k} of {share.n}{after}" if share.n else "not measured"


def _seeds(found: Findings) -> str:
    if not found.same_seed.n:
        return "not measured"
    if not found.other_seed.k:
        return f"cannot tell: other seeds change {_of(found.other_seed)} replies"
    return f"same seed: {_of(found.same_seed, ' equal')}; other seeds: {_of(found.other_seed, ' differ')}"


def _kept(found: Findings) -> str:
    if found.least_cached is None:
        return "no cached tokens reported"
    after = "" if found.cached_after is None else f", still after {found.cached_after:.0f} s"
    siblings = {True: "; calls at once share", False: "; calls at once miss", None: ""}[found.siblings_share]
    return f"from {found.least_cached:,} tokens{after}{siblings}"


def _speed(found: Findings) -> str:
    reads = "" if found.prompt_speed is None else f"{found.prompt_speed:,.0f} prompt tokens a second, "
    return "not measured" if found.new_speed is None else f"{reads}{found.new_speed:,.0f} new tokens a second"
