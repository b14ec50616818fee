"""Published exams: multiple choice, mathematics, and sentences to translate."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from string import ascii_uppercase

from madke.core.errors import UserError
from madke.data.published_rows import Format, Item, Row, csv_rows, json_rows, lines, short, signs

MEDICAL = (
    "anatomy",
    "clinical_knowledge",
    "college_biology",
    "college_medicine",
    "medical_genetics",
    "professional_medicine",
)
"""The six subjects of MMLU that the literature calls MMLU-Med."""

_LETTERS = "ABCD"
_MMLU_COLUMNS = ("question", *_LETTERS, "answer")
_SPLITS = ("test", "val", "dev")
_SPLIT = re.compile(rf"_({'|'.join(_SPLITS)})$")


def _mmlu_rows(subjects: Collection[str], path: Path) -> Iterator[Row]:
    """The rows of one subject's file, or of a folder of one split; of these subjects only, if any are named."""
    if path.is_dir():
        split = _split_in(path)
        files = {file.stem.removesuffix(f"_{split}"): file for file in sorted(path.glob(f"*_{split}.csv"))}
        if missing := [subject for subject in subjects if subject not in files]:
            raise UserError(f"there is no {missing[0]}_{split}.csv in it", file=path)
        chosen = [(subject, files[subject]) for subject in subjects or files]
    else:
        chosen = [(_SPLIT.sub("", path.name.removesuffix(".gz").removesuffix(".csv")), path)]
        if subjects and chosen[0][0] not in subjects:
            expected = ", ".join(subjects)
            raise UserError(f"the subject {chosen[0][0]!r} is not one of {expected}", file=path)
    for subject, file in chosen:
        for row in csv_rows(file, _MMLU_COLUMNS, header=False):
            yield Row(fields={**row.fields, "subject": subject}, file=file, line=row.line, number=row.number)


def _split_in(folder: Path) -> str:
    """The split whose files a folder holds."""
    found = [split for split in _SPLITS if any(folder.glob(f"*_{split}.csv"))]
    if len(found) > 1:
        names = " and ".join(f"*_{split}.csv" for split in found)
        raise UserError(f"holds {names}; expected the files of one split in a folder", file=folder)
    if found:
        return found[0]
    below = [folder / split for split in _SPLITS if any((folder / split).glob(f"*_{split}.csv"))]
    instead = f"; did you mean {below[0]}?" if below else "; expected MMLU's folder test, val or dev"
    raise UserError(f"there is no *_test.csv, *_val.csv or *_dev.csv in it{instead}", file=folder)


def _mmlu(row: Row) -> Item:
    """MMLU (Hendrycks et al., 2021). A subject is a CSV file without header: question, four options, letter."""
    letter = row.fields.get("answer")
    if type(letter) is int and 0 <= letter < len(_LETTERS):
        letter = _LETTERS[letter]
    if not isinstance(letter, str) or letter.strip() not in tuple(_LETTERS):
        raise row.error(f"the answer is {short(letter)}; expected a letter of A to D")
    choices = row.list_of("choices") if "choices" in row.fields else [row.fields[letter] for letter in _LETTERS]
    subject = row.text("subject")
    return Item(
        series=subject,
        question=row.text("question"),
        answers=(letter.strip(),),
        choices=tuple(row.checked(choice, "option") for choice in choices),
        metadata={"subject": subject},
    )


_OPTION = re.compile(r"\(([A-Z])\) (.*\S)\s*")
_TARGET = re.compile(r"\(([A-Z])\)")


def _bbh(wording: str, row: Row) -> Item:
    """A task of BIG-Bench Hard (Suzgun et al., 2022); its files differ from others' only in a wording of all questions.

    A document holds ``examples`` of ``input``, a question with its lettered options at the end, and ``target``, the
    letter of the right one in brackets.
    """
    question, mark, listed = row.text("input").partition("\nOptions:\n")
    if not mark:
        raise row.error("'input' has no line 'Options:'")
    if wording not in question:
        raise row.error(f"'input' is {short(question)}; expected a question with the words {wording!r}")
    options = [_OPTION.fullmatch(line) for line in listed.strip().split("\n")]
    letters = [option[1] if option else None for option in options]
    if letters != list(ascii_uppercase[: len(options)]):
        raise row.error(f"the options of 'input' are {short(listed)}; expected lines (A) ..., (B) ... in order")
    target = _TARGET.fullmatch(row.text("target").strip())
    if target is None:
        raise row.error(f"'target' is {short(row.fields['target'])}; expected a letter in brackets")
    return Item(question=question, answers=(target[1],), choices=tuple(option[2] for option in options if option))


def _math500(row: Row) -> Item:
    """MATH-500 (Hendrycks et al., 2021; Lightman et al., 2023)."""
    return Item(
        id=row.text("unique_id"),
        question=row.text("problem"),
        answers=(row.text("answer"),),
        metadata={key: row.text(key) for key in ("subject", "level")},
    )


def _gsm8k(row: Row) -> Item:
    """GSM8K (Cobbe et al., 2021): the result stands behind ``####``, at the end of a worked solution."""
    _, mark, result = row.text("answer").rpartition("####")
    if not mark or not result.strip():
        raise row.error("'answer' does not end with #### and a number")
    return Item(question=row.text("question"), answers=(result.strip(),))


def _ciar(row: Row) -> Item:
    """Counter-intuitive arithmetic reasoning (Liang et al., 2024): a question, its answers, and the trap it sets."""
    wrong = list(row.texts("incorrect answer"))
    return Item(question=row.text("question"), answers=row.texts("answer"), metadata={"wrong_answers": wrong})


_CIAR_KEYS = frozenset({"question", "answer", "incorrect answer"})
_CHINESE, _ENGLISH, _WRONG = "chinese_source", "english_target_correct", "english_target_wrong"


def _commonmt_rows(path: Path) -> Iterator[Row]:
    """The owner's CSV (source, right and wrong translation), or files ``.zh`` and ``.en``, line by line."""
    if path.suffix == ".csv":
        yield from csv_rows(path, (_CHINESE, _ENGLISH, _WRONG), header=True)
        return
    if path.suffix != ".zh":
        raise UserError("expected CommonMT's .csv, or the .zh of two line-aligned files", file=path)
    references = path.with_suffix(".en")
    source, target = lines(path), lines(references)
    if len(source) != len(target):
        raise UserError(f"has {len(source)} lines and {references.name} has {len(target)}; expected as many", file=path)
    for number, (chinese, english) in enumerate(zip(source, target, strict=True), start=1):
        yield Row(fields={_CHINESE: chinese, _ENGLISH: english}, file=path, line=number, number=number)


def _commonmt(row: Row) -> Item:
    """CommonMT (He et al., 2020): Chinese sentences with an ambiguous word, and their English translation."""
    return Item(question=row.text(_CHINESE).strip(), answers=(row.text(_ENGLISH).strip(),))


_BBH = partial(Format, task="choice", rows=partial(json_rows, under="examples"), signs=signs("input target"))

EXAMS = (
    Format(name="mmlu", task="choice", rows=partial(_mmlu_rows, ()), item=_mmlu),
    Format(name="mmlu_med", task="choice", rows=partial(_mmlu_rows, MEDICAL), item=_mmlu),
    Format(name="commonmt", task="translation", rows=_commonmt_rows, item=_commonmt),
    Format(
        name="ciar",
        task="math",
        rows=json_rows,
        item=_ciar,
        signs=(frozenset({"question", "answer", "incorrect answer"}),),
    ),
    Format(name="math500", task="math", rows=json_rows, item=_math500, signs=signs("problem answer unique_id")),
    _BBH(name="bbh_logical_deduction", item=partial(_bbh, "arranged in a fixed order")),
    _BBH(name="bbh_geometric_shapes", item=partial(_bbh, "SVG path element")),
    Format(name="gsm8k", task="math", rows=json_rows, item=_gsm8k, signs=signs("question answer")),
)
