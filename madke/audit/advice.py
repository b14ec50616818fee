"""The advice that follows from the findings of an audit: a few rules, the most important first."""

from collections.abc import Callable

from madke.audit.findings import Findings, Share

_READS = 0.75
"""Least share of readable replies of a stage that is good enough."""
_MAJORITY = 0.5
_FEW = 2
"""Summaries of a disagreement that could favour one side by chance."""
_MOST_CLAUSES = 2
_OFTEN = 0.2
"""Share of replies that repeat the prompt above which a debate is not worth its calls."""
_SLOW = 5.0
"""New tokens a second below which a debate takes many minutes."""
_PAYS = 1.3
"""Least gain of concurrent calls that is worth having."""


def _below(share: Share, limit: float) -> bool:
    return share.value < limit  # False for a share that was not measured.


def _reads(found: Findings, *stages: str) -> bool:
    return not any(_below(found.form[stage], _READS) for stage in stages)


def _judges_wrongly(found: Findings) -> bool:
    """Whether verdicts that can be read are right in half of the cases or fewer."""
    right, read = found.same_found.k + found.different_found.k, found.form["judge"].k
    return read > 1 and right <= _MAJORITY * read


def _favours(left: Share, right: Share) -> bool:
    """Whether the left share exceeds the right one by at least three quarters."""
    return left.n > 1 and right.n > 1 and left.value - right.value >= _READS


def _servile(found: Findings) -> bool:
    return _below(found.stayed_right, _MAJORITY) and found.became_right.value >= _MAJORITY


def _stubborn(found: Findings) -> bool:
    return _below(found.became_right, _MAJORITY) and found.stayed_right.value >= _MAJORITY


ALONE: tuple[tuple[Callable[[Findings], bool], str], ...] = (
    (lambda f: f.calls == 0, "nothing was measured"),
    (lambda f: f.failed == f.calls, "it cannot be used: every call failed; see the error above"),
    (lambda f: 2 * f.failed >= f.calls, "it is not reliable enough: at least half of the calls failed"),
    (
        lambda f: f.prompts_cut.k > 0,
        "raise the server's context window first, because it cuts long prompts without an error",
    ),
    (
        lambda f: f.cut_off.value >= _MAJORITY,
        "give it more tokens or take another model: at least half of its replies were cut off",
    ),
)
"""Rules whose sentence stands alone, because nothing else counts before it is dealt with."""

CLAUSES: tuple[tuple[Callable[[Findings], bool], str], ...] = (
    (lambda f: f.given_back.k > 1, "do not debate with these prompts, because it gives back their examples"),
    (lambda f: f.repeated.value >= _OFTEN, "do not debate with these prompts, because it repeats them"),
    (lambda f: not _reads(f, "speak", "reply"), "do not use it as a debater, because its answers cannot be read"),
    (lambda f: f.schemas.k > 0 and not _reads(f, "select", "judge"), "selects and judges with schemas only"),
    (lambda f: f.schemas.k == 0 and not _reads(f, "select"), "give it all passages with --set knowledge.select=all"),
    (lambda f: f.schemas.k == 0 and not _reads(f, "judge"), "take another judge, because its verdicts cannot be read"),
    (_judges_wrongly, "do not use it as a judge"),
    (lambda f: not _reads(f, "summarize"), "take another summarizer, because its summaries cannot be read"),
    (_servile, "do not trust its agreement, because it follows whoever speaks"),
    (_stubborn, "expect nothing from later rounds, because it keeps its first answer"),
    (lambda f: _favours(f.gold_first, f.gold_last), "show it few passages, because it favours the first"),
    (lambda f: _favours(f.gold_last, f.gold_first), "show it few passages, because it favours the last"),
    (
        lambda f: f.reported_first.n > _FEW and f.reported_first.k == f.reported_first.n,
        "take another summarizer, because it favours the first debater",
    ),
    (
        lambda f: f.reported_first.n > _FEW and f.reported_first.k == 0,
        "take another summarizer, because it favours the last debater",
    ),
    (
        lambda f: _below(f.system, _MAJORITY),
        "set dialect: {system: false} for it in models.yaml, because it ignores system messages",
    ),
    (lambda f: f.same_seed.n > f.same_seed.k, "do not rely on seeds, because the server ignores them"),
    (lambda f: f.new_speed is not None and f.new_speed < _SLOW, "ask few questions, because it is slow"),
    (lambda f: f.gain is not None and f.gain < _PAYS, "use --concurrency 1, because more calls at once gain nothing"),
    (lambda f: f.siblings_share is False, "set prefix: on for it in models.yaml, because calls at once miss its cache"),
)
"""Rules whose clauses are joined, at most two."""

_GOOD, _GOOD_SO_FAR = "use it in all roles", "nothing speaks against it so far"


def advice(found: Findings) -> str:
    """One sentence: what to do with the model."""
    alone = [clause for holds, clause in ALONE if holds(found)][:1]
    good = _GOOD if found.complete else _GOOD_SO_FAR
    clauses = alone or [clause for holds, clause in CLAUSES if holds(found)][:_MOST_CLAUSES] or [good]
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."
