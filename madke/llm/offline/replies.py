"""What the reader says in each role: it finds an answer, and words where it found it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from madke.engine.parse import parse_answer
from madke.llm.offline.decide import answers
from madke.llm.offline.passages import rank_passages
from madke.llm.offline.prompt import Prompt, Remark
from madke.llm.offline.rank import Candidate
from madke.llm.offline.text import normal, same

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
    if prompt.stage == "select":
        return _selection(prompt, embed, temperature, rng)
    if prompt.stage == "judge":
        return _verdict(prompt.remarks)
    if prompt.stage == "summarize":
        return _summary(prompt.remarks)
    return _stance(prompt, embed, temperature, rng)


# --- selection ---------------------------------------------------------------------------------------------------


def _selection(prompt: Prompt, embed: Embed, temperature: float, rng: random.Random) -> str:
    query = f"{prompt.question} {stated_answer(prompt.previous) or ''}".strip()
    ranked = rank_passages(query, prompt.knowledge, embed)
    noisy = [(passage, score + _PASSAGE_NOISE * temperature * rng.gauss(0, 1)) for passage, score in ranked]
    noisy.sort(key=lambda scored: -scored[1])
    least = max([_RELEVANT, *(_BESIDE_BEST * score for _, score in noisy[:1])])
    chosen = [passage for passage, score in noisy if score >= least][: prompt.limit]
    if not chosen:
        return (
            "I compared every passage of the pool with the question, by its words and by its meaning. They share too "
            "little with what is asked, so I would rather rely on none of them. [No Found]"
        )
    about = "; ".join(dict.fromkeys(_plain(passage.title or passage.text[:40]) for passage in chosen))
    return (
        "I compared every passage of the pool with the question, by its words and by its meaning. Closest to what is "
        f"asked is what the pool says about: {about}. The most helpful knowledge is "
        + ", ".join(f"[{passage.number}]" for passage in chosen)
        + "."
    )


# --- stance ------------------------------------------------------------------------------------------------------


def _stance(prompt: Prompt, embed: Embed, temperature: float, rng: random.Random) -> str:
    before = stated_answer(prompt.previous)
    ranked = _weighed(answers(prompt, embed), prompt, before)
    noisy = [replace(found, score=found.score + _ANSWER_NOISE * temperature * rng.gauss(0, 1)) for found in ranked]
    best = max(noisy, key=lambda found: found.score, default=None)
    if best is None:
        return (
            "I have no knowledge to read here, and I am only a reader of given text. The question itself does not hold "
            "its answer, so I cannot tell and give none."
        )
    answer = _plain(best.answer)
    agreeing = [remark.who for remark in prompt.remarks if (said := stated_answer(remark.text)) and same(said, answer)]
    attitude = _attitude(answer, before, agreeing)
    return " ".join(part for part in (attitude, _grounds(best, prompt), f"So the answer is [{answer}].") if part)


def _weighed(found: list[Candidate], prompt: Prompt, before: str | None) -> list[Candidate]:
    """The candidates, and what has been said in the debate beside them, with the bonus that saying it gives."""
    bonus: dict[str, float] = {}
    wording: dict[str, str] = {}
    said = [(before, _OWN_BONUS)]
    for remark in prompt.remarks:
        evidence = _EVIDENCE_BONUS if re.search(r"\[\d+\]", remark.text) else 0.0
        said.append((stated_answer(remark.text), _PEER_BONUS + evidence))
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
        f'Knowledge [{best.line.number}]{about} says: "{quoted}"'
    )
    if best.answer == "NOT ENOUGH INFO":
        return f"{said} This does not settle the claim."
    if prompt.form == "choice":
        return f'{said} Of the options, "{_plain(dict(prompt.options).get(best.answer, best.answer))}" fits this best.'
    return said


# --- judge and summarizer ----------------------------------------------------------------------------------------


def _verdict(remarks: tuple[Remark, ...]) -> str:
    given = [(remark.who, stated_answer(remark.text)) for remark in remarks]
    account = " ".join(f'{who} answers "{answer}".' if answer else f"{who} gives no answer." for who, answer in given)
    said = [answer for _, answer in given if answer]
    if len(said) < len(given) or len(said) < 2:
        return f"{account} Without an answer from everyone there is nothing to agree on. [No]"
    if all(same(said[0], answer) for answer in said[1:]):
        return f"{account} These say the same thing, if perhaps in different words. [Yes]"
    return f"{account} These are different answers. [No]"


def _summary(remarks: tuple[Remark, ...]) -> str:
    given = [(remark.who, answer) for remark in remarks if (answer := stated_answer(remark.text))]
    if not given:
        return "None of the debaters states an answer, so there is none to report."
    votes = [sum(same(answer, other) for _, other in given) for _, answer in given]
    _, answer = given[votes.index(max(votes))]
    holders = [who for who, other in given if same(answer, other)]
    verb = "gives" if len(holders) == 1 else "give"
    who = " and ".join(holders)
    return f"{who} {verb} this answer, and no other has more debaters behind it. The answer is [{answer}]."


# --- reading replies ---------------------------------------------------------------------------------------------


def stated_answer(text: str) -> str | None:
    """The answer that a reply states, as the engine's parser reads it; None where it states none."""
    return parse_answer(text, lambda raw: raw or None).value


def _plain(text: str) -> str:
    """Text without square brackets: those are markers."""
    return text.replace("[", "(").replace("]", ")")
