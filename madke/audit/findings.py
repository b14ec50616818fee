"""What the calls of an audit show: counts, each as k of n, and the advice that follows from them. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from madke.audit.probes import SYSTEM_WORD, ProbeCall
from madke.engine.parse import TRUNCATED

FINDINGS_FORMAT = 2
"""Of the JSON record; grows when a field changes its meaning."""

STAGES = ("select", "speak", "reply", "judge", "summarize")
_CHARACTERS = 4
"""Of a token in English prose."""
_CUT = 2 / 3
"""A server that counts fewer than this share of the expected tokens has cut the prompt."""
_SHOWN_ERRORS = 3
_READS = 0.75
"""Least share of readable replies of a stage that is good enough."""
_HALF = 0.5
_SLOW = 5.0
"""New tokens a second below which a debate takes many minutes."""
_MOST_CLAUSES = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """k of n."""

    k: int = 0
    n: int = 0

    @property
    def value(self) -> float:
        """The quotient; NaN for n = 0, which is neither above nor below any limit."""
        return self.k / self.n if self.n else float("nan")


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """The record of an audit, as ``madke doctor --model NAME --json`` prints it. A share of none was not measured."""

    format: int = FINDINGS_FORMAT
    model: str
    calls: int
    complete: bool
    """Whether all calls of the audit were made."""
    failed: int
    """Failed calls. A refused schema is not counted."""
    errors: tuple[str, ...]
    """The first different reasons of failed calls."""
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    form: dict[str, Share]
    """Stage -> replies that its parser reads."""
    given_back: Share
    """Answers that are the prompt's own words."""
    cut_off: Share
    """Replies that reached the limit of new tokens."""
    selected: Share
    """Selections with the passage that has the answer."""
    answered: Share
    """Right answers to a question whose passages hold the answer."""
    stayed_right: Share
    """Replies that keep a right answer against a wrong peer."""
    became_right: Share
    """Replies that take a right answer from a peer and leave their own wrong one."""
    same_found: Share
    """Verdicts on the same answer in other words that are right."""
    different_found: Share
    """Verdicts on different answers that are right."""
    summary_right: Share
    """Summaries that report the right answer, which has the better reason."""
    prompts_cut: Share
    """Calls for which the server counted fewer than two thirds of the expected prompt tokens."""
    longest_prompt: int
    """The largest prompt, in tokens by the server's count."""
    schemas: Share
    """Replies that fit the requested JSON schema."""
    system: Share
    """Replies that follow an instruction of the system message."""
    speed: float | None
    """New tokens a second, of one call after the other."""


def findings_of(model: str, calls: Sequence[ProbeCall], *, planned: int) -> Findings:
    """Count what the calls show; ``planned`` is the number of calls of a whole audit."""
    # A reply of only hidden reasoning is one that says nothing.
    answered = [call for call in calls if call.completion.outcome in ("ok", "empty")]
    stages = [call for call in answered if call.probe in STAGES]
    failures = [call for call in calls if call not in answered and call.probe != "schema"]
    errors = dict.fromkeys(call.completion.error or call.completion.outcome for call in failures)
    usage = [call.completion.usage for call in calls]
    counted = [call for call in answered if not call.completion.usage.estimated]
    new, seconds = sum(each.completion_tokens for each in usage), sum(call.ended - call.began for call in calls)

    def right(probe: str, case: str = "") -> Share:
        return _share(call.is_right for call in stages if call.probe == probe and call.case == case)

    return Findings(
        model=model,
        calls=len(calls),
        complete=len(calls) >= planned,
        failed=len(failures),
        errors=tuple(errors)[:_SHOWN_ERRORS],
        prompt_tokens=sum(each.prompt_tokens for each in usage),
        completion_tokens=new,
        seconds=seconds,
        form={stage: _share(call.is_readable for call in stages if call.probe == stage) for stage in STAGES},
        given_back=_share(call.is_echo for call in stages if call.probe in ("speak", "reply", "summarize")),
        cut_off=_share(call.completion.finish_reason.casefold() in TRUNCATED for call in stages),
        selected=right("select"),
        answered=right("speak"),
        stayed_right=right("reply", "own_right"),
        became_right=right("reply", "own_wrong"),
        same_found=right("judge", "same"),
        different_found=right("judge", "different"),
        summary_right=right("summarize"),
        prompts_cut=_share(_is_cut(call) for call in counted),
        longest_prompt=max((call.completion.usage.prompt_tokens for call in counted), default=0),
        schemas=_share(call.is_readable for call in calls if call.probe == "schema"),
        system=_share(
            call.completion.text.casefold().lstrip('*"').startswith(SYSTEM_WORD.casefold())
            for call in answered
            if call.probe == "system"
        ),
        speed=new / seconds if new and seconds > 0 else None,
    )


def _is_cut(call: ProbeCall) -> bool:
    sent = sum(len(message.content) for message in call.request.messages)
    return call.completion.usage.prompt_tokens < _CUT * sent / _CHARACTERS


def _share(values: Iterable[bool]) -> Share:
    found = list(values)
    return Share(k=sum(found), n=len(found))


def _below(share: Share, limit: float) -> bool:
    return share.value < limit  # False for a share that was not measured.


def _reads(found: Findings, *stages: str) -> bool:
    return not any(_below(found.form[stage], _READS) for stage in stages)


def _judges_wrongly(found: Findings) -> bool:
    """Whether verdicts that can be read are right in half of the cases or fewer."""
    right, read = found.same_found.k + found.different_found.k, found.form["judge"].k
    return read > 1 and right <= _HALF * read


ALONE: tuple[tuple[Callable[[Findings], bool], str], ...] = (
    (lambda f: f.calls == 0, "nothing was measured"),
    (lambda f: f.failed == f.calls, "it cannot be used: every call failed; see the error above"),
    (lambda f: 2 * f.failed >= f.calls, "it is not reliable enough: at least half of the calls failed"),
    (
        lambda f: f.prompts_cut.k > 0,
        "raise the server's context window first, because it cuts long prompts without an error",
    ),
    (
        lambda f: f.cut_off.value >= _HALF,
        "give it more tokens or take another model: at least half of its replies were cut off",
    ),
)
"""Rules whose sentence stands alone, because nothing else counts before it is dealt with."""

CLAUSES: tuple[tuple[Callable[[Findings], bool], str], ...] = (
    (lambda f: f.given_back.k > 1, "do not debate with these prompts, because it gives them back"),
    (lambda f: not _reads(f, "speak", "reply"), "do not use it as a debater, because its answers cannot be read"),
    (lambda f: f.schemas.k > 0 and not _reads(f, "select", "judge"), "selects and judges with schemas only"),
    (lambda f: f.schemas.k == 0 and not _reads(f, "select"), "give it all passages with --set select=all"),
    (lambda f: f.schemas.k == 0 and not _reads(f, "judge"), "take another judge, because its verdicts cannot be read"),
    (_judges_wrongly, "this model cannot judge; use agreement (--set early_stop=agreement)"),
    (lambda f: not _reads(f, "summarize"), "take another summarizer, because its summaries cannot be read"),
    (
        lambda f: _below(f.stayed_right, _HALF) and f.became_right.k > 0,
        "do not trust its agreement, because it follows whoever speaks",
    ),
    (
        lambda f: _below(f.became_right, _HALF) and f.stayed_right.k > 0,
        "expect nothing from later rounds, because it keeps its first answer",
    ),
    (
        lambda f: _below(f.system, _HALF),
        "set dialect: {system: false} for it in models.yaml, because it ignores system messages",
    ),
    (lambda f: f.speed is not None and f.speed < _SLOW, "ask few questions, because it is slow"),
)
"""Rules whose clauses are joined, at most two."""


def advice(found: Findings) -> str:
    """One sentence: what to do with the model. The most important rules come first."""
    alone = [clause for holds, clause in ALONE if holds(found)][:1]
    good = "use it in all roles" if found.complete else "nothing speaks against it so far"
    clauses = alone or [clause for holds, clause in CLAUSES if holds(found)][:_MOST_CLAUSES] or [good]
    sentence = "; ".join(clauses)
    return f"{sentence[0].upper()}{sentence[1:]}."
