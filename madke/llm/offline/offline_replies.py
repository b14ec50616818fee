"""What the reader says in each role: it finds an answer, and words where it found it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from madke.engine.parse import Marker, marked, parse_answer
from madke.llm.offline.candidates import Candidate, answers
from madke.llm.offline.language import content, normal, rank_passages, same
from madke.llm.offline.prompt_reader import Prompt

if TYPE_CHECKING:
    from madke.llm.offline.language import Embed

_RELEVANT = 0.6
"""A passage below this score is no help; unrelated ones reach about 0.4."""
_NEXT_TO_BEST = 0.6
"""A further passage must reach this share of the best one's score."""
_PASSAGE_NOISE, _ANSWER_NOISE = 0.2, 0.25
"""Standard deviations of the noise on scores at temperature 1."""
_OWN_BONUS, _PEER_BONUS = 0.25, 0.2
"""What an answer gains by having been the reader's own, and by each other debater who gives it."""
_EVIDENCE_BONUS = 0.15
"""What a peer's answer gains where the peer quotes knowledge for it."""
_QUOTED_WORDS = 45


def reply(prompt: Prompt, embed: Embed, temperature: float, rng: random.Random) -> str:
    """The reply to a prompt; the temperature scales the noise on the scores."""
    match prompt.stage:
        case "select":
            return _selection(prompt, embed, lambda: _PASSAGE_NOISE * temperature * rng.gauss(0, 1))
        case "speak":
            return _stance(prompt, embed, lambda: _ANSWER_NOISE * temperature * rng.gauss(0, 1))
        case "reflect":
            return _review(prompt, embed)
        case "judge":
            return _verdict(prompt)
        case "pick" | "summarize":
            return _summary(prompt)
        case "digest":
            return _account(prompt)
        case "note":
            return f"The words that carry most of it: {', '.join(dict.fromkeys(content(prompt.question)))}."


def _selection(prompt: Prompt, embed: Embed, noise: Callable[[], float]) -> str:
    own = stated_answer(prompt.previous, prompt.marker)
    query = f"{prompt.question} {own or ''}".strip()
    noisy = [(passage, score + noise()) for passage, score in rank_passages(query, prompt.knowledge, embed)]
    noisy.sort(key=lambda scored: -scored[1])
    least = max([_RELEVANT, *(_NEXT_TO_BEST * score for _, score in noisy[:1])])
    chosen = [passage for passage, score in noisy if score >= least][: prompt.limit]
    compared = "I compared every passage of the pool with the question, by its words and by its meaning."
    if not chosen:
        search = f"\n[Search: {_plain(query)}]" if "[Search:" in prompt.closing else ""
        return f"{compared} They share too little with what is asked to rely on any.{search}\nSelected: [No Found]"
    about = "; ".join(dict.fromkeys(_plain(passage.title or passage.text[:40]) for passage in chosen))
    numbers = " ".join(f"[{passage.number}]" for passage in chosen)
    return f"{compared} Closest to what is asked is what the pool says about: {about}.\nSelected: {numbers}"


def _stance(prompt: Prompt, embed: Embed, noise: Callable[[], float]) -> str:
    before = stated_answer(prompt.previous, prompt.marker)
    ranked = _weighed(answers(prompt, embed), prompt, before)
    noisy = [replace(found, score=found.score + noise()) for found in ranked]
    best = max(noisy, key=lambda found: found.score, default=None)
    if best is None:
        return "I only read what I am given, and here that does not hold the answer, so I cannot tell and give none."
    answer = _plain(best.answer)
    agreeing = dict.fromkeys(who for who, said in _given(prompt) if said and same(said, answer))
    if before and same(before, answer):
        attitude = "I have read the question again and I keep my answer. "
    elif agreeing:
        attitude = f"I agree with {' and '.join(agreeing)}: that answer stands better than mine did. "
    else:
        attitude = "Reading again, I find my earlier answer less well supported than another one. " if before else ""
    said = attitude + _grounds(best, prompt)
    if "Confidence:" in prompt.closing:
        rival = max((found.score for found in ranked if not same(found.answer, best.answer)), default=0.0)
        said += f"\nConfidence: {min(1.0, max(0.5, 0.5 + best.score - rival)):.2f}"
    return f"{said}\nThe answer is {marked(answer, prompt.marker)}."


def _weighed(found: list[Candidate], prompt: Prompt, before: str | None) -> list[Candidate]:
    """The candidates, and what has been said beside them, with the bonus that saying it gives."""
    said = [(before, _OWN_BONUS)]
    for remark in prompt.remarks:
        evidence = _EVIDENCE_BONUS if re.search(r"\bKnowledge \d", remark.text) else 0.0
        said.append((stated_answer(remark.text, prompt.marker), _PEER_BONUS + evidence))
    weighed = {normal(candidate.answer): candidate for candidate in reversed(found)}
    for answer, gain in said:
        if answer and normal(answer):
            known = next((each for each in weighed.values() if same(each.answer, answer)), None)
            known = known or Candidate(answer=answer, score=0.0)
            weighed[normal(known.answer)] = replace(known, score=known.score + gain)
    return list(weighed.values())


def _grounds(best: Candidate, prompt: Prompt) -> str:
    if best.line is None:
        if prompt.remarks and prompt.previous:
            return "My own knowledge says nothing for or against it."
        return "I have no knowledge to read: what I give rests on the question's wording alone and is only a guess."
    words = _plain(best.line.text).split()
    quoted = " ".join(words[:_QUOTED_WORDS]) + (" ..." if len(words) > _QUOTED_WORDS else "")
    about = f", about {_plain(best.line.title)}," if best.line.title else ""
    said = "Of the knowledge I chose, one sentence comes closest to what is asked. "
    said += f'Knowledge {best.line.number}{about} says: "{quoted}"'
    if best.answer == "NOT ENOUGH INFO":
        return f"{said} This does not settle the claim."
    if prompt.form == "choice":
        return f'{said} Of the options, "{_plain(dict(prompt.options).get(best.answer, best.answer))}" fits this best.'
    return said


def _review(prompt: Prompt, embed: Embed) -> str:
    own = stated_answer(prompt.previous, prompt.marker)
    if own is None:
        return "My answer states nothing that could be checked, so it cannot stay as it is.\nVerdict: [REVISE]"
    best = max(answers(prompt, embed), key=lambda found: found.score, default=None)
    if best is None or same(best.answer, own):
        return f'Nothing that I can read speaks against "{own}".\nVerdict: [KEEP]'
    return f'Reading again, the knowledge speaks for "{_plain(best.answer)}" rather than "{own}".\nVerdict: [REVISE]'


def _verdict(prompt: Prompt) -> str:
    said = [answer for _, answer in _given(prompt)]
    agreed = len(said) > 1 and all(answer and same(said[0] or "", answer) for answer in said)
    why = "These say the same thing, if perhaps in different words." if agreed else "These are different answers."
    if None in said or len(said) < 2:
        why = "Without an answer from everyone there is nothing to agree on."
    why = f"{_account(prompt)} {why}"
    if '"settled"' in prompt.closing:
        side, answer = (_leader(prompt) or ("", "")) if agreed else ("", "")
        return json.dumps({"reason": why, "settled": agreed, "side": side, "answer": answer}, ensure_ascii=False)
    yes, no = ("SAME", "DIFFERENT") if "[SAME]" in prompt.closing else ("Yes", "No")
    return f"{why}\nVerdict: [{yes if agreed else no}]"


def _account(prompt: Prompt) -> str:
    return " ".join(f'{who} answers "{said}".' if said else f"{who} gives no answer." for who, said in _given(prompt))


def _summary(prompt: Prompt) -> str:
    """The answer with the most debaters behind it; of a judge who is to pick, the first of them."""
    leader = _leader(prompt)
    if leader is None:
        return "None of the debaters states an answer, so there is none to report."
    first, answer = leader
    holders = [who for who, other in _given(prompt) if other and same(answer, other)]
    said = f"{' and '.join(holders)} {'gives' if len(holders) == 1 else 'give'} this answer, and no other has more "
    said += "debaters behind it."
    if prompt.stage == "pick":
        return f"{said}\n[{first}]"
    side = f"\nSide: {first}" if "Side:" in prompt.closing else ""
    return f"{said}{side}\nThe answer is {marked(answer, prompt.marker)}."


def _leader(prompt: Prompt) -> tuple[str, str] | None:
    """The first of those who give the answer with the most debaters behind it, and the answer."""
    given = [(who, answer) for who, answer in _given(prompt) if answer]
    return max(given, key=lambda held: sum(same(held[1], other) for _, other in given), default=None)


def _given(prompt: Prompt) -> list[tuple[str, str | None]]:
    """Each debater's name and the answer that it states, if any."""
    return [(remark.who, stated_answer(remark.text, prompt.marker)) for remark in prompt.remarks]


def stated_answer(text: str, marker: Marker = "brackets") -> str | None:
    """The answer that a reply states, as the engine's parser reads it; None where it states none."""
    found = parse_answer(text, lambda raw: raw or None, marker)
    return found.value if found.rule in ("cue", "last", "boxed") else None


def _plain(text: str) -> str:
    # Square brackets are markers.
    return text.replace("[", "(").replace("]", ")")
