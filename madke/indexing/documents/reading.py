"""Read one document (PDF, DOCX, HTML, Markdown, plain text) as titled passages.

Documents are untrusted and parsers have bugs, so :mod:`madke.indexing.documents.bounded` calls this in a process of
its own, with bounds on time and memory.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

from madke.core.errors import UserError
from madke.indexing.documents.layout import Character, PageReading, is_suspect, read_by_columns
from madke.indexing.passages.books import as_sentence, book_form, read_book, sections, with_ended_headings

MAX_DOCUMENT_CHARACTERS = 50_000_000
"""Of one document: more than 10,000 pages."""
_MAX_XML_BYTES = 256 << 20
_WORDS = 100
_SHOWN = 8
UNCLEAR = "layout unclear"
"""Begins the note of a document that is read whole, but perhaps in a wrong order."""

# Scripts without spaces between words.
_SPACELESS = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_UNIT = re.compile(rf"(?:[{_SPACELESS}]{{1,2}}|[^\s{_SPACELESS}]{{1,40}})\s*")
"""A word; also two characters of a script without spaces, and 40 of a longer run."""
_BROKEN_LINE = re.compile(rf"(?<=[{_SPACELESS}])\s*\n\s*(?=[{_SPACELESS}])")
_FORMS_OF_LETTERS = re.compile("[\ufb00-\ufdff\ufe70-\ufefc]+")
"""Ligatures, and Arabic letters by their position in a word."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ufffe\uffff]")
# PDFium writes U+FFFE for a hyphen at the end of a line and continues on the next line without a break.
_HYPHENATED = re.compile("(?<!\\w)(\\w++)(?:\ufffe\\s*|[-\u2010\u00ad]\r?\n)(\\w+)")
_COMPOUND = re.compile(r"\w+(?:-\w+)*")


class Unreadable(Exception):
    """Why a document has no passages."""


class Document(NamedTuple):
    """What a document holds."""

    passages: list[tuple[str, str]]
    """Title (``reports/kestrel.pdf, p. 3``, ``notes.md: Nests``) and text of each passage, in order."""
    pages: int
    """0 for formats without pages."""
    note: str
    """Which part of it was left out, and why; empty if none."""


_Parts = list[tuple[str, str]]
"""What follows the document's name in titles, and the text, of each page or section."""


def read_document(path: Path, name: str) -> Document:
    """Read a document; Unreadable if it has no text or cannot be read. ``name`` is its name in titles."""
    parts, pages, note = _READERS[_kind(name)](path, name)
    if sum(len(text) for _, text in parts) > MAX_DOCUMENT_CHARACTERS:
        raise Unreadable(f"more than {MAX_DOCUMENT_CHARACTERS:,} characters of text")
    passages = [(f"{name}{place}", text) for place, whole in parts for text in passages_of(whole)]
    if not passages:
        raise Unreadable("no text (a scan needs text recognition, OCR, first)" if pages else "no text")
    return Document(passages, pages, note)


DOCUMENT_TYPES = "PDF, DOCX, HTML, Markdown or text"


def is_document(name: str) -> bool:
    """Whether the ending of a file's name is one that :func:`read_document` knows."""
    return _kind(name) in _READERS


def _kind(name: str) -> str:
    return "book" if book_form(name) else PurePosixPath(name.lower()).suffix


def passages_of(text: str, words: int = _WORDS) -> Iterator[str]:
    """Divide a page or section into passages of about equal length, between two thirds and one and a half ``words``.

    A shorter text is one passage. Two characters of a script without spaces count as a word.
    """
    text = _FORMS_OF_LETTERS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), _BROKEN_LINE.sub("", text))
    units = _UNIT.findall(_CONTROL.sub("", text.encode("utf-8", "replace").decode()).strip())
    size = ceil(len(units) / max(1, round(len(units) / words)))
    for start in range(0, len(units), size or 1):
        yield " ".join("".join(units[start : start + size]).split())


def _read_book(path: Path, name: str) -> tuple[_Parts, int, str]:
    try:
        found = sections(name, read_book(path), tables=True)
        plain = book_form(name) == "text"
        return [(_below(one.heading), with_ended_headings(one.text) if plain else one.text) for one in found], 0, ""
    except UserError as error:
        raise Unreadable(str(error).replace(f"{path}: ", "").replace(f"{path}:", "line ")) from None


def _below(heading: str) -> str:
    return f": {heading}" if heading else ""


def _read_pdf(path: Path, name: str) -> tuple[_Parts, int, str]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        locked = error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD
        raise Unreadable("encrypted: it opens only with a password" if locked else "damaged, or no PDF") from None
    texts, images, damaged = [], 0, 0
    unclear: list[int] = []
    for number in range(len(document)):
        try:
            page = document[number]
            reading = _page_text(page.get_textpage())
            texts.append(reading.text or "")
            if reading.unclear:
                unclear.append(number + 1)
            if not texts[-1].strip():
                images += any(page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]))
            page.close()  # otherwise all pages stay in memory
        except pypdfium2.PdfiumError:
            texts.append("")
            damaged += 1
    counts = {"are images without text (scans need text recognition, OCR)": images, "are damaged": damaged}
    notes = [f"{count} of {len(texts)} pages {what}" for what, count in counts.items() if count]
    if unclear:
        listed = ", ".join(map(str, unclear[:_SHOWN])) + (" ..." if len(unclear) > _SHOWN else "")
        notes.append(f"{UNCLEAR} on p. {listed} (columns or a table; lines may be mixed)")
    note = "; ".join(notes)
    known = {word for text in texts for word in _COMPOUND.findall(text.lower())}
    pages = [_HYPHENATED.sub(lambda found: _rejoined(found, known), text) for text in texts]
    return [(f", p. {number}", text) for number, text in enumerate(pages, start=1)], len(pages), note


def _page_text(page: Any) -> PageReading:
    """The text of a page, by columns where its lines were drawn across them."""
    from pypdfium2 import raw

    drawn = page.get_text_range()
    if not is_suspect(drawn, lambda number: page.get_charbox(min(number, page.count_chars() - 1), loose=True)):
        return PageReading(drawn, unclear=False)
    codes = (raw.FPDFText_GetUnicode(page, number) for number in range(page.count_chars()))
    # U+0002 is PDFium's other sign for a hyphen at the end of a line. It counts the halves of a surrogate pair.
    texts = ["\ufffe" if code == 2 else chr(code) for code in codes]
    found = read_by_columns(Character(text, *page.get_charbox(number, loose=True)) for number, text in enumerate(texts))
    if found.text is None:
        return PageReading(drawn, found.unclear)
    return PageReading(found.text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), found.unclear)


def _rejoined(found: re.Match[str], known: set[str]) -> str:
    """A word that was divided at the end of a line; ``known`` are the words of the document in lower case."""
    left, right = found.groups()
    hyphenated = f"{left}-{right}"
    whole = (left + right).lower() in known or hyphenated.lower() not in known
    return left + right if whole and left[-1].isalpha() and right[0].islower() else hyphenated


_WORD_XML = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_ALTERNATIVE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_TEXT = f"{_WORD_XML}t"
_SPACES = (f"{_WORD_XML}tab", f"{_WORD_XML}br", f"{_WORD_XML}cr")
_COMPOUND_FILE = b"\xd0\xcf\x11\xe0"


def _read_docx(path: Path, name: str) -> tuple[_Parts, int, str]:
    from lxml import etree

    with path.open("rb") as file:
        if file.read(4) == _COMPOUND_FILE:
            raise Unreadable("encrypted, or in Word's format before 2007")
    try:
        with ZipFile(path) as archive:
            names, parts = set(archive.namelist()), []
            headings = _heading_styles(archive) if "word/styles.xml" in names else {}
            for member in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
                if member in names or member == "word/document.xml":
                    parts += _sections(archive, member, headings)
    except (BadZipFile, KeyError, etree.XMLSyntaxError, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise Unreadable(f"damaged, or no DOCX ({error})") from None
    return parts, 0, ""


def _elements(archive: ZipFile, member: str, *tags: str) -> Iterator[Any]:
    """Each element of a member with one of these tags, when it ends; it is emptied after its use."""
    from lxml import etree

    if archive.getinfo(member).file_size > _MAX_XML_BYTES:
        raise Unreadable(f"unpacks to more than {_MAX_XML_BYTES >> 20} MB")
    with archive.open(member) as file:
        for _, element in etree.iterparse(file, tag=tags, resolve_entities=False, no_network=True):
            yield element
            element.clear()


def _heading_styles(archive: ZipFile) -> dict[str, bool]:
    """The paragraph styles that are headings, and whether they are of the first three levels."""
    # The names of built-in styles are English in every language, their identifiers are not.
    built_in = ("title", "heading 1", "heading 2", "heading 3")
    deeper = ("subtitle", *(f"heading {level}" for level in range(4, 10)))
    found = {}
    for style in _elements(archive, "word/styles.xml", f"{_WORD_XML}style"):
        name = style.find(f"{_WORD_XML}name")
        if name is not None and (known := name.get(f"{_WORD_XML}val", "").lower()) in (*built_in, *deeper):
            found[style.get(f"{_WORD_XML}styleId", "")] = known in built_in
    return found


def _sections(archive: ZipFile, member: str, headings: dict[str, bool]) -> _Parts:
    """The text of a document below each heading. A text box comes before the paragraph that holds it."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for paragraph in _elements(archive, member, f"{_WORD_XML}p"):
        if next(paragraph.iterancestors(_ALTERNATIVE), None) is not None:
            continue
        pieces = [part.text or "" if part.tag == _TEXT else " " for part in paragraph.iter(_TEXT, *_SPACES)]
        text = " ".join("".join(pieces).split())
        style = paragraph.find(f"{_WORD_XML}pPr/{_WORD_XML}pStyle")
        starts_section = headings.get("" if style is None else style.get(f"{_WORD_XML}val", ""))
        if text and starts_section:
            found.append((text, []))
        elif text:
            found[-1][1].append(f"{text if starts_section is None else as_sentence(text)}\n")
    return [(_below(heading), "".join(texts)) for heading, texts in found]


_READERS: dict[str, Callable[[Path, str], tuple[_Parts, int, str]]] = {
    ".pdf": _read_pdf,
    ".docx": _read_docx,
    "book": _read_book,
}
