"""What the calls of an audit show: counts, each as k of n. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from madke.audit.calls import PROBED_STAGES, ProbeCall
from madke.core.chat import shared_length
from madke.engine.parse import TRUNCATED

FINDINGS_FORMAT = 1
"""Of the JSON record; grows when a field changes its meaning."""

_LONG_WORDS = 8
"""Words of a sequence that a reply has by chance only rarely."""
_REPEATS = 0.25
"""Share of such sequences that makes a reply a repetition of the prompt."""
_ANSWER_WORDS = 8
_GAP = "\n"
_CHARACTERS = 4
"""Of a token in English prose."""
_CUT = 2 / 3
"""A server that counts fewer than this share of the expected tokens has cut the prompt."""
_MEASURABLE = 0.1
"""Seconds of a call below which connections and not the model decide what concurrency gains."""
_SHOWN_ERRORS = 3


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
    """Answers that are words of the prompt but not of question, passages and stances."""
    repeated: Share
    """Replies whose sequences of eight words are in a quarter of the cases or more the prompt's own, without quotes."""
    cut_off: Share
    """Replies that reached the limit of new tokens."""
    gold_first: Share
    """Selections and answers that are right where the passage with the answer is shown first."""
    gold_last: Share
    """The same with that passage shown last."""
    reported_first: Share
    """Summaries of a disagreement, with an answer of one of the two, that report the answer read first."""
    summary_right: Share
    """Summaries that report the right answer, which has the better reason."""
    stayed_right: Share
    """Replies that keep a right answer against a wrong peer."""
    became_right: Share
    """Replies that take a right answer from a peer and leave their own wrong one."""
    same_found: Share
    """Verdicts on the same answer in other words that are right."""
    different_found: Share
    """Verdicts on different answers that are right."""
    prompts_cut: Share
    """Calls for which the server counted fewer than two thirds of the expected prompt tokens."""
    longest_prompt: int
    """The largest prompt, in tokens by the server's count."""
    schemas: Share
    """Replies that fit the requested JSON schema."""
    same_seed: Share
    """Pairs of calls with the same seed whose replies are equal."""
    other_seed: Share
    """Calls with another seed whose replies differ."""
    system: Share
    """Replies that follow an instruction of the system message."""
    prompt_speed: float | None
    """Prompt tokens a second, of one call; None if the server does not stream."""
    new_speed: float | None
    """New tokens a second, of one call."""
    gain: float | None
    """Tokens a second of four calls at once, as a multiple of those of one call."""
    least_cached: int | None = None
    """The fewest cached tokens that the server reported for a call; None if it reported none."""
    cached_after: float | None = None
    """The longest time in seconds after which a beginning was still reported as cached."""
    siblings_share: bool | None = None
    """Whether one of two calls at once found most of their prompt in the cache; None if a later call did not either."""


def findings_of(model: str, calls: Sequence[ProbeCall], *, planned: int) -> Findings:
    """Count what the calls show; ``planned`` is the number of calls of a whole audit."""
    # A reply of only hidden reasoning is one that says nothing.
    answered = [call for call in calls if call.completion.outcome in ("ok", "empty")]
    stages = [call for call in answered if call.probe in PROBED_STAGES]
    failures = [call for call in calls if call not in answered and call.probe != "schema"]
    errors = dict.fromkeys(call.completion.error or call.completion.outcome for call in failures)
    usage = [call.completion.usage for call in calls]
    reported = [call.reported for call in _of(stages, "summarize") if call.reported is not None]
    written = _of(answered, "alone", "together")
    same_seed, other_seed = _seeds(_of(answered, "together"))
    prompt_speed, new_speed = _speeds([call for call in answered[1:] if call.probe not in ("together", "siblings")])
    counted = [call for call in answered if not call.completion.usage.estimated]
    return Findings(
        model=model,
        calls=len(calls),
        complete=len(calls) >= planned,
        failed=len(failures),
        errors=tuple(errors)[:_SHOWN_ERRORS],
        prompt_tokens=sum(each.prompt_tokens for each in usage),
        completion_tokens=sum(each.completion_tokens for each in usage),
        seconds=max((call.ended for call in calls), default=0.0) - min((call.began for call in calls), default=0.0),
        form={stage: _share(call.readable for call in _of(stages, stage)) for stage in PROBED_STAGES},
        given_back=_share(gives_back(call) for call in _of(stages, "speak", "reply", "summarize")),
        repeated=_share(repeats_prompt(call) for call in stages),
        cut_off=_share(call.completion.finish_reason.casefold() in TRUNCATED for call in stages),
        gold_first=_share(call.right for call in stages if call.case == "gold_first"),
        gold_last=_share(call.right for call in stages if call.case == "gold_last"),
        reported_first=_share(place == 1 for place in reported),
        summary_right=_share(call.right for call in _of(stages, "summarize")),
        stayed_right=_share(call.right for call in stages if call.case == "own_right"),
        became_right=_share(call.right for call in stages if call.case == "own_wrong"),
        same_found=_share(call.right for call in stages if call.case == "same"),
        different_found=_share(call.right for call in stages if call.case == "different"),
        prompts_cut=_share(_is_cut(call) for call in counted),
        longest_prompt=max((call.completion.usage.prompt_tokens for call in counted), default=0),
        schemas=_share(call.readable for call in _of(calls, "schema")),
        same_seed=same_seed,
        other_seed=other_seed,
        system=_share(_follows_system(call) for call in written),
        prompt_speed=prompt_speed,
        new_speed=new_speed,
        gain=_gain(_of(answered, "alone"), _of(answered, "together")),
        least_cached=min((n for each in usage if (n := each.cached_tokens)), default=None),
        cached_after=_cached_after(answered),
        siblings_share=_siblings_share(_of(answered, "siblings", "long")),
    )


def gives_back(call: ProbeCall) -> bool:
    """Whether the answer is one of the prompt's own words: an example, a placeholder, a debater's name."""
    if call.echoed or call.answer is None:
        return call.echoed
    answer = _words(call.answer)
    if not 0 < len(answer) <= _ANSWER_WORDS or any(_holds(_words(text), answer) for text in call.shown):
        return False
    return _holds(_own_words(_sent(call), call.shown), answer)


def repeats_prompt(call: ProbeCall) -> bool:
    """Whether a reply is made of the prompt's own words. Quotes of question, passages and stances do not count."""
    own = set(_sequences(_own_words(_sent(call), call.shown)))
    said = _sequences(_own_words(call.completion.text, call.shown))
    return bool(said) and sum(each in own for each in said) / len(said) >= _REPEATS


def _sent(call: ProbeCall) -> str:
    return "\n".join(message.content for message in call.request.messages)


def _own_words(text: str, shown: Sequence[str]) -> list[str]:
    """The words of a text without the texts that were shown, each of which leaves a gap."""
    text = " ".join(text.split())
    for each in sorted((" ".join(each.split()) for each in shown if each.strip()), key=len, reverse=True):
        text = text.replace(each, f" {_GAP} ")
    return re.findall(rf"\w+|{_GAP}", text.casefold())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _sequences(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The sequences of eight words, none with a gap in it."""
    found = (tuple(words[n : n + _LONG_WORDS]) for n in range(len(words) - _LONG_WORDS + 1))
    return [sequence for sequence in found if _GAP not in sequence]


def _holds(words: Sequence[str], part: Sequence[str]) -> bool:
    return any(words[n : n + len(part)] == part for n in range(len(words) - len(part) + 1))


def _is_cut(call: ProbeCall) -> bool:
    sent = sum(len(message.content) for message in call.request.messages)
    return call.completion.usage.prompt_tokens < _CUT * sent / _CHARACTERS


def _follows_system(call: ProbeCall) -> bool:
    """Whether the reply begins with the word that the system message asks for."""
    asked = _words(call.request.messages[0].content)[-1:]
    return _words(call.completion.text)[:1] == asked


def _seeds(together: Sequence[ProbeCall]) -> tuple[Share, Share]:
    """Pairs with the same seed and equal replies; calls with another seed and another reply."""
    by_seed: dict[int | None, list[str]] = {}
    for call in together:
        by_seed.setdefault(call.request.seed, []).append(call.completion.text)
    pairs = [texts for texts in by_seed.values() if len(texts) > 1]
    if not pairs:
        return Share(), Share()
    others = [text for texts in by_seed.values() if len(texts) == 1 for text in texts]
    return _share(len(set(texts)) == 1 for texts in pairs), _share(text not in pairs[0] for text in others)


def _speeds(calls: Sequence[ProbeCall]) -> tuple[float | None, float | None]:
    """Prompt and new tokens a second."""
    streamed = [call for call in calls if call.first_token is not None]
    if not streamed:
        new = sum(call.completion.usage.completion_tokens for call in calls)
        return None, _rate(new, sum(call.ended - call.began for call in calls))
    usage = [call.completion.usage for call in streamed]
    waited = sum(call.first_token or 0.0 for call in streamed)
    wrote = sum(call.ended - call.began for call in streamed) - waited
    read = _rate(sum(each.prompt_tokens - each.cached_tokens for each in usage), waited)
    return read, _rate(sum(max(0, each.completion_tokens - 1) for each in usage), wrote)


def _gain(alone: Sequence[ProbeCall], together: Sequence[ProbeCall]) -> float | None:
    if not alone or len(together) < 2 or alone[0].ended - alone[0].began < _MEASURABLE:
        return None
    rates = []
    for calls in (alone, together):
        tokens = sum(call.completion.usage.completion_tokens for call in calls)
        rates.append(_rate(tokens, max(call.ended for call in calls) - min(call.began for call in calls)))
    return rates[1] / rates[0] if rates[0] and rates[1] else None


def _cached_after(calls: Sequence[ProbeCall]) -> float | None:
    """The longest time from the end of a call to a later one that found most of what they share in the cache."""
    found = []
    for call in calls:
        if not (cached := call.completion.usage.cached_tokens):
            continue
        earlier = [each for each in calls if each.ended <= call.began]
        alike = [
            each
            for each in earlier
            if shared_length(each.request.messages, call.request.messages) >= cached * _CHARACTERS / 2
        ]
        found += [call.began - max(each.ended for each in alike)] if alike else []
    return max(found, default=None)


def _siblings_share(long: Sequence[ProbeCall]) -> bool | None:
    """Of three calls with one prompt, the first two of them at once."""
    if len(long) != 3:
        return None
    *siblings, after = (2 * used.cached_tokens >= used.prompt_tokens for used in (c.completion.usage for c in long))
    return any(siblings) if after else None


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count and seconds > 0 else None


def _of(calls: Iterable[ProbeCall], *probes: str) -> list[ProbeCall]:
    return [call for call in calls if call.probe in probes]


def _share(values: Iterable[bool]) -> Share:
    found = list(values)
    return Share(k=sum(found), n=len(found))
