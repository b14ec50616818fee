"""What the reader says in each role: it finds an answer, and words where it found it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from madke.engine.parse import Marker, marked, parse_answer
from madke.llm.offline.decide import answers
from madke.llm.offline.passages import rank_passages
from madke.llm.offline.prompt import Prompt
from madke.llm.offline.rank import Candidate
from madke.llm.offline.text import content, normal, same

if TYPE_CHECKING:
    from madke.llm.offline.passages import Embed

_RELEVANT = 0.6
"""A passage below this score is no help; unrelated ones reach about 0.4."""
_BESIDE_BEST = 0.6
"""A further passage must reach this share of the best one's score."""
_PASSAGE_NOISE = 0.2
"""Standard deviation of the noise on passage scores at temperature 1."""
_ANSWER_NOISE = 0.25
"""The same for answers."""
_OWN_BONUS = 0.25
"""What an answer gains by having been the reader's own."""
_PEER_BONUS = 0.2
"""What an answer gains by each other debater who gives it."""
_EVIDENCE_BONUS = 0.15
"""What a peer's answer gains where the peer quotes knowledge for it."""
_QUOTED_WORDS = 45


def reply(prompt: Prompt, embed: Embed, temperature: float, rng: random.Random) -> str:
    """The reply to a prompt.

    Args:
        prompt: What is asked, and of whom.
        embed: Texts to unit vectors.
        temperature: Scales the noise on the scores; at 0 the reply depends on the prompt alone.
        rng: Where the noise comes from.
    """
    match prompt.stage:
        case "select":
            return _selection(prompt, embed, temperature, rng)
        case "speak":
            return _stance(prompt, embed, temperature, rng)
        case "reflect":
            return _review(prompt, embed)
        case "judge":
            return _record(prompt) if '"settled"' in prompt.closing else _verdict(prompt)
        case "pick":
            return _pick(prompt)
        case "summarize":
            return _summary(prompt)
        case "digest":
            return _account(prompt)
        case "note":
            return f"The words that carry most of it: {', '.join(dict.fromkeys(content(prompt.question)))}."


# --- selection ---------------------------------------------------------------------------------------------------


def _selection(prompt: Prompt, embed: Embed, temperature: float, rng: random.Random) -> str:
    own = stated_answer(prompt.previous, prompt.marker)
    query = f"{prompt.question} {own or ''}".strip()
    ranked = rank_passages(query, prompt.knowledge, embed)
    noisy = [(passage, score + _PASSAGE_NOISE * temperature * rng.gauss(0, 1)) for passage, score in ranked]
    noisy.sort(key=lambda scored: -scored[1])
    least = max([_RELEVANT, *(_BESIDE_BEST * score for _, score in noisy[:1])])
    chosen = [passage for passage, score in noisy if score >= least][: prompt.limit]
    if not chosen:
        return (
            "I compared every passage of the pool with the question, by its words and by its meaning. They share too "
            "little with what is asked, so I would rather rely on none of them."
            + (f"\n[Search: {_plain(query)}]" if "[Search:" in prompt.closing else "")
            + "\nSelected: [No Found]"
        )
    about = "; ".join(dict.fromkeys(_plain(passage.title or passage.text[:40]) for passage in chosen))
    return (
        "I compared every passage of the pool with the question, by its words and by its meaning. Closest to what is "
        f"asked is what the pool says about: {about}.\nSelected: "
        + " ".join(f"[{passage.number}]" for passage in chosen)
    )


# --- stance ------------------------------------------------------------------------------------------------------


def _stance(prompt: Prompt, embed: Embed, temperature: float, rng: random.Random) -> str:
    before = stated_answer(prompt.previous, prompt.marker)
    ranked = _weighed(answers(prompt, embed), prompt, before)
    noisy = [replace(found, score=found.score + _ANSWER_NOISE * temperature * rng.gauss(0, 1)) for found in ranked]
    best = max(noisy, key=lambda found: found.score, default=None)
    if best is None:
        return (
            "I have no knowledge to read here, and I am only a reader of given text. The question itself does not hold "
            "its answer, so I cannot tell and give none."
        )
    answer = _plain(best.answer)
    agreeing = list(dict.fromkeys(who for who, said in _given(prompt) if said and same(said, answer)))
    attitude = _attitude(answer, before, agreeing)
    said = f"{attitude} {_grounds(best, prompt)}".strip()
    if "Confidence:" in prompt.closing:
        said += f"\nConfidence: {_confidence(best, ranked):.2f}"
    return f"{said}\n{_stated(answer, prompt)}"


def _stated(answer: str, prompt: Prompt) -> str:
    return f"The answer is {marked(answer, prompt.marker)}."


def _confidence(best: Candidate, ranked: list[Candidate]) -> float:
    """How far the best candidate is ahead of the next different one, from 0.5 to 1."""
    others = [found.score for found in ranked if not same(found.answer, best.answer)]
    return min(1.0, max(0.5, 0.5 + best.score - max(others, default=0.0)))


def _weighed(found: list[Candidate], prompt: Prompt, before: str | None) -> list[Candidate]:
    """The candidates, and what has been said in the debate beside them, with the bonus that saying it gives."""
    bonus: dict[str, float] = {}
    wording: dict[str, str] = {}
    said = [(before, _OWN_BONUS)]
    for remark in prompt.remarks:
        evidence = _EVIDENCE_BONUS if re.search(r"\bKnowledge \d", remark.text) else 0.0
        said.append((stated_answer(remark.text, prompt.marker), _PEER_BONUS + evidence))
    for answer, gain in said:
        if answer and normal(answer):
            known = next((c.answer for c in found if same(c.answer, answer)), answer)
            bonus[normal(known)] = bonus.get(normal(known), 0.0) + gain
            wording.setdefault(normal(known), known)
    weighed = [replace(c, score=c.score + bonus.pop(normal(c.answer), 0.0)) for c in found]
    return weighed + [Candidate(answer=wording[form], score=gain) for form, gain in bonus.items()]


def _attitude(answer: str, before: str | None, agreeing: list[str]) -> str:
    if before and same(before, answer):
        return "I have read the question again and I keep my answer."
    if agreeing:
        return f"I agree with {' and '.join(agreeing)}: that answer stands better than mine did."
    if before:
        return "Reading again, I find my earlier answer less well supported than another one."
    return ""


def _grounds(best: Candidate, prompt: Prompt) -> str:
    if best.line is None:
        if prompt.remarks and prompt.previous:
            return "My own knowledge says nothing for or against it."
        return (
            "I have no knowledge to read, and all I can do is read. What I give here rests on the wording of the "
            "question alone and is no more than a guess."
        )
    words = _plain(best.line.text).split()
    quoted = " ".join(words[:_QUOTED_WORDS]) + (" ..." if len(words) > _QUOTED_WORDS else "")
    about = f", about {_plain(best.line.title)}," if best.line.title else ""
    said = (
        "Of the knowledge I chose, one sentence comes closest to what is asked. "
        f'Knowledge {best.line.number}{about} says: "{quoted}"'
    )
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


# --- judge and summarizer ----------------------------------------------------------------------------------------


def _verdict(prompt: Prompt) -> str:
    agreed, why = _agreement(prompt)
    words = ("SAME", "DIFFERENT") if "[SAME]" in prompt.closing else ("Yes", "No")
    return f"{why}\nVerdict: [{words[0] if agreed else words[1]}]"


def _record(prompt: Prompt) -> str:
    agreed, why = _agreement(prompt)
    holder, answer = _leader(prompt) or ("", "")
    record = {"reason": why, "settled": agreed, "side": holder if agreed else "", "answer": answer if agreed else ""}
    return json.dumps(record, ensure_ascii=False)


def _agreement(prompt: Prompt) -> tuple[bool, str]:
    given = _given(prompt)
    account = _account(prompt)
    said = [answer for _, answer in given if answer]
    if len(said) < len(given) or len(said) < 2:
        return False, f"{account} Without an answer from everyone there is nothing to agree on."
    if all(same(said[0], answer) for answer in said[1:]):
        return True, f"{account} These say the same thing, if perhaps in different words."
    return False, f"{account} These are different answers."


def _account(prompt: Prompt) -> str:
    lines = (f'{who} answers "{answer}".' if answer else f"{who} gives no answer." for who, answer in _given(prompt))
    return " ".join(lines)


def _summary(prompt: Prompt) -> str:
    leader = _leader(prompt)
    if leader is None:
        return "None of the debaters states an answer, so there is none to report."
    _, answer = leader
    holders = [who for who, other in _given(prompt) if other and same(answer, other)]
    verb = "gives" if len(holders) == 1 else "give"
    who = " and ".join(holders)
    side = f"\nSide: {holders[0]}" if "Side:" in prompt.closing else ""
    return f"{who} {verb} this answer, and no other has more debaters behind it.{side}\n{_stated(answer, prompt)}"


def _pick(prompt: Prompt) -> str:
    leader = _leader(prompt)
    if leader is None:
        return "None of the debaters states an answer, so I can pick nobody."
    return f"No other answer has more debaters behind it than the one that {leader[0]} gives.\n[{leader[0]}]"


def _leader(prompt: Prompt) -> tuple[str, str] | None:
    """The answer with the most debaters behind it, and the first of them; None where nobody states one."""
    given = [(who, answer) for who, answer in _given(prompt) if answer]
    if not given:
        return None
    votes = [sum(same(answer, other) for _, other in given) for _, answer in given]
    return given[votes.index(max(votes))]


# --- reading replies ---------------------------------------------------------------------------------------------


def _given(prompt: Prompt) -> list[tuple[str, str | None]]:
    """Each debater's name and the answer that it states, if any."""
    return [(remark.who, stated_answer(remark.text, prompt.marker)) for remark in prompt.remarks]


def stated_answer(text: str, marker: Marker = "brackets") -> str | None:
    """The answer that a reply states, as the engine's parser reads it; None where it states none."""
    found = parse_answer(text, lambda raw: raw or None, marker)
    return found.value if found.rule in ("cue", "last", "boxed") else None


def _plain(text: str) -> str:
    """Text without square brackets: those are markers."""
    return text.replace("[", "(").replace("]", ")")
