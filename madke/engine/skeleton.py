"""Copy a protocol's prompts, ready for other words: its templates, or the structure of the printed prompts."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from madke.core.errors import UserError
from madke.engine.roles import PREPARE_VALUES, STAGE_VALUES
from madke.engine.variant import Variant
from madke.engine.wording import PAPER, wording_of

VALUES: Mapping[str, str] = {
    "question": "question.question is its text; question.instructions is what the user wants of the answer, or empty",
    "options": "the letter and the text of each choice",
    "task": "task.noun, task.goal, task.form, task.reasoning, task.answer: words of the answer format",
    "examples": "worked examples that the protocol asks for: question, choices, reasoning, answer of each",
    "marker": "how the answer is marked; {{ 'X' | marked }} marks X",
    "round": "number of the round",
    "rounds": "maximum number of rounds",
    "debaters": "names of all debaters",
    "level": "tit-for-tat level, 0 to 3",
    "debater": "name of the reader",
    "persona": "the reader's persona, or empty",
    "knowledge": "the number, the title and the text of each passage",
    "own": "the reader's own last stance, or none",
    "prepared": "stage -> the reader's own notes",
    "max_selected": "how many passages may be selected",
    "allow_search": "whether the reader may ask for a search",
    "bound": "whether the reply is asked for with a JSON schema",
    "peers": "stances of the others: agent, text, answer, confidence, round",
    "history": "all stances so far, in order of time: as peers",
    "groups": "peers by answer: answer, members",
    "digest": "the summary of the debate so far, or none",
    "critique": "the reader's review of its own stance, or none",
    "cite": "whether the stance is asked for a quotation of each passage that it uses",
    "stances": "the stances that are judged or summed up: agent, text, answer, round",
}
"""The variables of templates, with their meanings."""

_TAG = re.compile(r"\{%-?\s*(?:block\s+(\w+)|(endblock)(?:\s+\w+)?)\s*-?%\}\n?")
_EXTENDS = re.compile(r"\{%-?\s*extends\s+\"([^\"]+)\"\s*-?%\}\n?")
_COMMENT = re.compile(r"\{#.*?#\}\n?", re.DOTALL)


def copy_variant(variant: Variant, folder: Path) -> list[Path]:
    """Write a copy of a variant to ``folder``, which must not exist; return its files.

    Prompts of the copy are those of the variant until you change them. Each template begins with a comment: the values
    that it gets. A template that extends a shared one is written out, so that its words can be replaced; shared parts
    that show values are still included.
    """
    if folder.exists():
        raise UserError("exists already; give another folder, or remove this one", file=folder)
    written = []
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(variant.folder.iterdir()) if _kept(file)}
    folder.mkdir(parents=True)
    for name, text in texts.items():
        stage = name.removesuffix(".j2").partition(".")[0]
        if name.endswith(".j2") and stage in variant.protocol.stages:
            text = _heading(variant, stage) + _whole(variant, text)
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


class _Block(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


_Block.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def copy_words(protocol: str, file: Path) -> None:
    """Write the wording ``paper`` of a protocol to a new file, to be filled with the printed words."""
    if file.exists():
        raise UserError("exists already; give another file, or remove this one", file=file)
    words = wording_of(PAPER, protocol).model_dump(exclude_defaults=True)
    for each in words["prompts"].values():
        if isinstance(each, dict):
            each.pop("differs", None)
    text = yaml.dump({protocol: words}, Dumper=_Block, sort_keys=False, allow_unicode=True, width=10_000)
    file.write_text(
        f"# {protocol} in the words of madke; put the printed ones in their place.\n{text}", encoding="utf-8"
    )


def _kept(file: Path) -> bool:
    return file.suffix in (".j2", ".yaml") and not file.name.startswith(".")


def _heading(variant: Variant, stage: str) -> str:
    """The comment at the head of a template: its values, and the shared parts that show them."""
    values = sorted(STAGE_VALUES.get(stage, PREPARE_VALUES) | {"options", "task", "marker"})
    lines = [f"{variant.name}, stage {stage}.", "Change the words; keep what shows values."]
    lines.append("Included parts show values (question.j2, passages.j2, others.j2, stances.j2), or are words")
    lines.append("(debater_role.j2, answer_form.j2). Leave out those that you do not want.")
    lines.append("Values of this stage:")
    lines += [f"  {name:<13} {VALUES[name]}" for name in values]
    return "{#\n" + "".join(f"  {line}\n" for line in lines) + "#}\n"


def _whole(variant: Variant, text: str) -> str:
    """A template with the blocks of those that it extends; as it is if it does more than to replace blocks."""
    extends = _EXTENDS.search(text)
    if extends is None or "super()" in text or _beside_blocks(text.replace(extends[0], "")):
        return text
    assert variant.environment.loader is not None
    shared, *_ = variant.environment.loader.get_source(variant.environment, extends[1])
    shared = _whole(variant, shared)
    own = {name: text[start:end] for name, start, end in _blocks(text)}
    merged, done = text[: extends.start()], 0
    for name, start, end in _blocks(shared):
        if name in own and start >= done:
            merged, done = f"{merged}{shared[done:start]}{own[name]}", end
    return merged + shared[done:]


def _tags(text: str) -> Iterator[re.Match[str]]:
    """The beginnings and ends of blocks, but not those in comments."""
    return _TAG.finditer(_COMMENT.sub(lambda comment: " " * len(comment[0]), text))


def _blocks(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of the inside of each block, in the order of their begins."""
    opened: list[tuple[str, int]] = []
    found = []
    for tag in _tags(text):
        if tag[1]:
            opened.append((tag[1], tag.end()))
        else:
            name, start = opened.pop()
            found.append((name, start, tag.start()))
    yield from sorted(found, key=lambda block: block[1])


def _beside_blocks(text: str) -> str:
    """What stands outside of all blocks, without comments."""
    depth, begin, outside = 0, 0, ""
    for tag in _tags(text):
        if depth == 0:
            outside += text[begin : tag.start()]
        depth += 1 if tag[1] else -1
        begin = tag.end()
    return _COMMENT.sub("", outside + text[begin:]).strip()
