"""Readers of the published datasets, in their owners' formats, and the registry of all readers."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

from madke._util.files import cells_of, text_lines
from madke.core.errors import UserError, short
from madke.core.question import Question
from madke.core.registry import Registry
from madke.data.rows import Row, json_rows, table_rows

ParagraphKind = Literal["gold", "misinformation", "other"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Paragraph:
    """A text that comes with a question of the dataset."""

    title: str
    text: str
    kind: ParagraphKind = "other"
    """``gold``: contains evidence for the answer; ``misinformation``: states a wrong answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One entry of a published file."""

    question: Question
    """Without its task. An empty id is made from the position."""
    series: str | None = None
    """Positions are counted within the series from 0, as MIRAGE (Xiong et al., 2024) numbers the questions of an MMLU
    subject; None: within the whole dataset from 1."""
    paragraphs: tuple[Paragraph, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """The format of one dataset. Its card and ``metadata["dataset"]`` of its questions have the same name."""

    name: str
    task: str
    rows: Callable[[Path], Iterator[Row]]
    """Reads the rows of a file (or folder) as the owner publishes it."""
    read: Callable[[Row], Item | Question]
    """Converts one row of a file, or of the Hugging Face repository that the card names."""

    def item(self, row: Row) -> Item:
        """The item of a row; UserError if the row is no entry of this dataset."""
        if "golden_answers" in row.fields:
            remedy = "omit --dataset (madke ablate: give --data PATH without NAME=)"
            raise row.error(f"found 'golden_answers', so this file is in madke's own format; {remedy}")
        try:
            entry = self.read(row)
            return Item(question=entry) if isinstance(entry, Question) else entry
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise row.error(f"not a valid entry of {self.name}: {type(error).__name__}: {error}") from None


_HIDDEN = "<unk>"
"""The value of an answer in TriviaQA's test splits on Hugging Face."""


def _triviaqa(row: Row) -> Question:
    """TriviaQA (Joshi et al., 2017): the release's JSON, KILT's JSON Lines, plain JSON Lines, Hugging Face rows."""
    if "output" in row.fields:
        return _kilt(row)
    return Question(
        id=row.text("QuestionId", "question_id", "id"),
        question=row.text("Question", "question"),
        answers=row.texts("answers") if "answers" in row.fields else _aliases(row),
    )


def _aliases(row: Row) -> tuple[str, ...]:
    """The value, its aliases and human answers; empty in a split without labels."""
    key = "Answer" if "Answer" in row.fields else "answer"
    answer = row.fields.get(key)
    if answer is None:
        return ()
    if not isinstance(answer, Mapping):
        raise row.error(f"{key!r} is {short(answer)}; expected an object with a value and aliases")
    fields = {name.lower(): value for name, value in answer.items()}
    if fields.get("value") in (None, "", _HIDDEN):
        return ()
    inner = Row(fields=fields, file=row.file, line=row.line, number=row.number)
    texts = [inner.text("value")]
    for name in ("aliases", "humananswers"):
        if fields.get(name):
            texts += inner.texts(name)
    return tuple(dict.fromkeys(texts))


def _kilt(row: Row) -> Question:
    """KILT (Petroni et al., 2021): each output may hold an answer and the pages that contain it."""
    outputs = row.fields["output"]
    answers = [row.check_text(output["answer"], "answer") for output in outputs if output.get("answer")]
    if not answers:
        raise row.error("'output' contains no 'answer'")
    pages = [page for output in outputs for page in output.get("provenance") or []]
    return Question(
        id=row.text("id"),
        question=row.text("question", "input"),
        answers=tuple(dict.fromkeys(answers)),
        metadata=_gold_titles(row.check_text(page["title"], "title") for page in pages),
    )


def _gold_titles(titles: Iterable[str]) -> dict[str, Any]:
    return {"gold_titles": unique} if (unique := list(dict.fromkeys(titles))) else {}


def _nq_open(row: Row) -> Question:
    """NQ-open (Kwiatkowski et al., 2019; Lee et al., 2019): question and short answers, one object per line."""
    if isinstance(answer := row.fields.get("answer"), str):
        raise row.error(f"'answer' is {short(answer)}; expected a list")
    return Question(question=row.text("question"), answers=row.texts("answer"))


def _multihop(types: Collection[str], row: Row) -> Item:
    """HotpotQA (Yang et al., 2018) and 2WikiMultiHopQA (Ho et al., 2020), which share one schema.

    ``context`` is a list of [title, sentences], ``supporting_facts`` a list of [title, sentence number]; on Hugging
    Face both are columns. Files without paragraphs are accepted. Fields may be capitalised. ``answer`` may be a list,
    as in some copies of 2WikiMultiHopQA.
    """
    fields = {key.lower(): value for key, value in row.fields.items()}
    row = replace(row, fields=fields)
    if fields.get("type") and fields["type"] not in types:
        raise row.error(f"'type' is {short(fields['type'])}; expected {', '.join(types)}")
    pages = _pairs(fields.get("context"), "sentences")
    titles = [title for title, _ in _pairs(fields.get("supporting_facts"), "sent_id")]
    gold = [row.check_text(title, "title") for title in titles]
    question = Question(
        id=row.text("_id", "id") if {"_id", "id"} & set(fields) else "",
        question=row.text("question"),
        answers=_answers(row),
        metadata={key: row.text(key) for key in ("type", "level") if fields.get(key)} | _gold_titles(gold),
    )
    return Item(question=question, paragraphs=tuple(_page(row, title, sentences, gold) for title, sentences in pages))


def _answers(row: Row) -> tuple[str, ...]:
    """Those of ``answers``, else of ``answer``; empty in test splits."""
    key = next((key for key in ("answers", "answer") if row.fields.get(key) is not None), None)
    answers = () if key is None else row.texts(key)
    if any("####" in answer for answer in answers):
        raise row.error(f"{key!r} contains '####' like the worked solutions of GSM8K; expected a short answer")
    return answers


def _pairs(value: Any, second: str) -> list[tuple[Any, Any]]:
    """Pairs of a title and another value, from a list of pairs or from columns."""
    if isinstance(value, Mapping):
        return list(zip(value["title"], value[second], strict=True))
    return [(title, other) for title, other in value or ()]


def _page(row: Row, title: Any, sentences: Any, gold: Collection[str]) -> Paragraph:
    if not isinstance(sentences, list):
        raise row.error(f"'context': the sentences of {short(title)} are {type(sentences).__name__}; expected texts")
    # HotpotQA's sentences start with a space, 2WikiMultiHopQA's do not.
    text = " ".join(stripped for sentence in sentences if (stripped := sentence.strip()))
    title = row.check_text(title, "title")
    kind: Literal["gold", "other"] = "gold" if title in gold else "other"
    return Paragraph(title=title, text=row.check_text(text or title, "context"), kind=kind)


_ESCAPES = {
    "_": " ", "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "-COLON-": ":",
}  # fmt: skip


def _page_title(name: str) -> str:
    """The title of a page from its FEVER name, such as ``Soul_Food_-LRB-film-RRB-``, with decomposed accents."""
    for escape, sign in _ESCAPES.items():
        name = name.replace(escape, sign)
    return unicodedata.normalize("NFC", name)


def _fever(row: Row) -> Question:
    """FEVER (Thorne et al., 2018): one claim per line, with the Wikipedia sentences that verify it."""
    # A sentence is [annotation, evidence, page, number]; the page is None for claims without enough information.
    sentences = [sentence for group in row.fields.get("evidence", ()) for sentence in group]
    pages = [row.check_text(page, "evidence") for _, _, page, _ in sentences if page is not None]
    return Question(
        id=row.text("id"),
        question=row.text("claim"),
        # The test split has no labels.
        answers=(row.text("label"),) if "label" in row.fields else (),
        metadata=_gold_titles(map(_page_title, pages)),
    )


_KINDS: Mapping[str, ParagraphKind] = {"correct": "gold", "misinfo": "misinformation", "noise": "other"}


def _ramdocs(row: Row) -> Item:
    """RAMDocs (Wang et al., 2025): ambiguous questions with documents that are correct, wrong, or irrelevant."""
    wrong = row.texts("wrong_answers") if row.fields.get("wrong_answers") else ()
    metadata = {"wrong_answers": list(wrong)} if wrong else {}
    return Item(
        question=Question(question=row.text("question"), answers=row.texts("gold_answers"), metadata=metadata),
        paragraphs=tuple(
            Paragraph(title="", text=row.check_text(document["text"], "text"), kind=_KINDS[document["type"]])
            for document in row.fields["documents"]
        ),
    )


MEDICAL = (
    "anatomy", "clinical_knowledge", "college_biology", "college_medicine", "medical_genetics", "professional_medicine",
)  # fmt: skip
"""The six subjects of MMLU that the literature calls MMLU-Med."""

_LETTERS = "ABCD"
_MMLU_FILE = re.compile(r"(?P<subject>.*?)(?:_(?P<split>test|val|dev))?\.csv(?:\.gz)?")


def _mmlu_rows(subjects: Collection[str], path: Path) -> Iterator[Row]:
    """The rows of one subject's file, or of a folder with one split; ``subjects`` (if any) limits the subjects."""
    named = [(file, _MMLU_FILE.fullmatch(file.name)) for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    files = {match["subject"]: file for file, match in named if match and (match["split"] or not path.is_dir())}
    chosen: Collection[str] = files
    if path.is_dir():
        if len(splits := sorted({match["split"] for _, match in named if match and match["split"]})) != 1:
            patterns = " and ".join(f"*_{split}.csv" for split in splits) or "no *_test.csv, *_val.csv or *_dev.csv"
            raise UserError(f"found {patterns}; expected MMLU's folder test, val or dev", file=path)
        chosen = subjects or files
        if missing := [subject for subject in chosen if subject not in files]:
            raise UserError(f"this folder lacks {missing[0]}_{splits[0]}.csv", file=path)
    elif subjects and files.keys().isdisjoint(subjects):
        raise UserError(f"found subject {', '.join(files)!r}, expected one of {', '.join(subjects)}", file=path)
    for subject in chosen:
        header = (0, ["question", *_LETTERS, "answer"])
        for row in table_rows(files[subject], chain([header], cells_of(files[subject]))):
            yield Row(fields={**row.fields, "subject": subject}, file=row.file, line=row.line, number=row.number)


def _mmlu(row: Row) -> Item:
    """MMLU (Hendrycks et al., 2021): a CSV file without header per subject, with question, four options, letter."""
    letter = row.fields["answer"]
    if type(letter) is int and 0 <= letter < len(_LETTERS):
        letter = _LETTERS[letter]
    if not isinstance(letter, str) or letter.strip() not in tuple(_LETTERS):
        raise row.error(f"the answer is {short(letter)}; expected a letter from A to D")
    choices = row.fields["choices"] if "choices" in row.fields else [row.fields[letter] for letter in _LETTERS]
    subject = row.text("subject")
    question = Question(
        question=row.text("question"),
        answers=(letter.strip(),),
        choices=tuple(row.check_text(choice, "option") for choice in choices),
        metadata={"subject": subject},
    )
    return Item(question=question, series=subject)


_OPTION = re.compile(r"\(([A-Z])\) (.*\S)\s*")
_TARGET = re.compile(r"\s*\(([A-Z])\)\s*")


def _bbh(wording: str, row: Row) -> Question:
    """A task of BIG-Bench Hard (Suzgun et al., 2022), recognised by ``wording``, which all its questions contain.

    Each of the ``examples`` has ``input``, a question followed by its lettered options, and ``target``, the correct
    letter in brackets.
    """
    question, _, listed = row.text("input").partition("\nOptions:\n")
    if wording not in question:
        raise row.error(f"'input' is {short(question)}; expected a question that contains {wording!r}")
    options = [_OPTION.fullmatch(line) for line in listed.strip().split("\n")]
    choices = {option[1]: option[2] for option in options if option}
    if list(choices) != list(ascii_uppercase[: len(options)]):
        raise row.error(f"the options of 'input' are {short(listed)}; expected lines (A) ..., (B) ... in order")
    target = _TARGET.fullmatch(row.text("target"))
    if target is None:
        raise row.error(f"'target' is {short(row.fields['target'])}; expected a letter in brackets")
    return Question(question=question, answers=(target[1],), choices=tuple(choices.values()))


def _math500(row: Row) -> Question:
    """MATH-500 (Hendrycks et al., 2021; Lightman et al., 2023)."""
    return Question(
        id=row.text("unique_id"),
        question=row.text("problem"),
        answers=(row.text("answer"),),
        metadata={key: row.text(key) for key in ("subject", "level")},
    )


def _gsm8k(row: Row) -> Question:
    """GSM8K (Cobbe et al., 2021): a worked solution that ends in ``####`` and the result."""
    _, mark, result = row.text("answer").rpartition("####")
    if not mark or not result.strip():
        raise row.error("'answer' does not end in #### and a number")
    return Question(question=row.text("question"), answers=(result.strip(),))


def _ciar(row: Row) -> Question:
    """Counter-intuitive arithmetic reasoning (Liang et al., 2024): a question, its answers, and its trap answers."""
    wrong = list(row.texts("incorrect answer"))
    return Question(question=row.text("question"), answers=row.texts("answer"), metadata={"wrong_answers": wrong})


_CHINESE, _ENGLISH = "chinese_source", "english_target_correct"


def _commonmt_rows(path: Path) -> Iterator[Row]:
    """The owner's CSV (source, correct and wrong translation), or two line-aligned files ``.zh`` and ``.en``."""
    if path.suffix == ".csv":
        yield from table_rows(path, cells_of(path))
        return
    if path.suffix != ".zh":
        raise UserError("expected CommonMT's .csv, or the .zh of two line-aligned files", file=path)
    references = path.with_suffix(".en")
    source, target = list(text_lines(path)), list(text_lines(references))
    if len(source) != len(target):
        problem = f"found {len(source)} lines, but {len(target)} in {references.name}"
        raise UserError(f"{problem}; expected as many", file=path)
    for number, (chinese, english) in enumerate(zip(source, target, strict=True), start=1):
        yield Row(fields={_CHINESE: chinese, _ENGLISH: english}, file=path, line=number, number=number)


def _commonmt(row: Row) -> Question:
    """CommonMT (He et al., 2020): Chinese sentences with an ambiguous word, and their English translation."""
    return Question(question=row.text(_CHINESE).strip(), answers=(row.text(_ENGLISH).strip(),))


_DEDUCTION, _SHAPES = "arranged in a fixed order", "SVG path element"
_TRIVIA_ROWS, _BBH_ROWS = partial(json_rows, under="Data"), partial(json_rows, under="examples")
_HOTPOT_TYPES = ("bridge", "comparison")
_WIKI_TYPES = ("compositional", "comparison", "inference", "bridge_comparison")

_FORMATS = (
    Format(name="triviaqa", task="short_answer", rows=_TRIVIA_ROWS, read=_triviaqa),
    Format(name="nq_open", task="short_answer", rows=json_rows, read=_nq_open),
    Format(name="hotpotqa", task="short_answer", rows=json_rows, read=partial(_multihop, _HOTPOT_TYPES)),
    Format(name="2wikimultihopqa", task="short_answer", rows=json_rows, read=partial(_multihop, _WIKI_TYPES)),
    Format(name="fever", task="claim", rows=json_rows, read=_fever),
    Format(name="ramdocs", task="short_answer", rows=json_rows, read=_ramdocs),
    Format(name="mmlu", task="choice", rows=partial(_mmlu_rows, ()), read=_mmlu),
    Format(name="mmlu_med", task="choice", rows=partial(_mmlu_rows, MEDICAL), read=_mmlu),
    Format(name="commonmt", task="translation", rows=_commonmt_rows, read=_commonmt),
    Format(name="ciar", task="math", rows=json_rows, read=_ciar),
    Format(name="math500", task="math", rows=json_rows, read=_math500),
    Format(name="bbh_logical_deduction", task="choice", rows=_BBH_ROWS, read=partial(_bbh, _DEDUCTION)),
    Format(name="bbh_geometric_shapes", task="choice", rows=_BBH_ROWS, read=partial(_bbh, _SHAPES)),
    Format(name="gsm8k", task="math", rows=json_rows, read=_gsm8k),
)

FORMATS = {format_.name: format_ for format_ in _FORMATS}
"""Name -> format of every built-in dataset; each has a card in ``eval/datasets/``."""

DatasetReader = Callable[[Path], Iterable[Question]]
"""A user's reader: returns the questions of a file."""


def _reader(name: str, value: Any) -> DatasetReader:
    if not callable(value):
        raise UserError(f"dataset {name!r} is {type(value).__name__}; expected a function of a path")
    return value  # type: ignore[no-any-return]


READERS: Registry[Format | DatasetReader] = Registry("dataset", FORMATS, adapt=_reader)
"""The values of ``--dataset``: built-in formats, and ``module:object``."""
