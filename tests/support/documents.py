"""Small documents of every kind, good and bad."""

import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile


def pdf(pages: Sequence[str | None]) -> bytes:
    """A PDF with these texts (ASCII, lines of 80 characters); None is a page that is an image."""
    objects = {1: b"<< /Type /Catalog /Pages 2 0 R >>"}
    objects[3] = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects[4] = _stream(
        b"\x80", b"/Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8", b"DeviceGray"
    )
    kids = []
    for number, text in enumerate(pages):
        page, content = 5 + 2 * number, 6 + 2 * number
        kids.append(b"%d 0 R" % page)
        resources = b"<< /Font << /F 3 0 R >> /XObject << /I 4 0 R >> >>"
        objects[page] = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources %s /Contents %d 0 R >>" % (
            resources,
            content,
        )
        objects[content] = _stream(b"500 0 0 700 40 40 cm /I Do" if text is None else _shown(text))
    objects[2] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    return _file(objects)


def drawn_pdf(items: Sequence[tuple[int, int, str]]) -> bytes:
    """A PDF page with texts drawn in this order: points from the left, points from the bottom, text."""
    content = b"".join(b"BT /F 11 Tf %d %d Td %s Tj ET " % (x, y, _string(text)) for x, y, text in items)
    return _file(_one_page(content, b"Courier", b"/Resources << /Font << /F 3 0 R >> >>"))


def _one_page(content: bytes, font: bytes, resources: bytes) -> dict[int, bytes]:
    """The objects of a PDF of one page, numbered from 1."""
    return {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /%s >>" % font,
        4: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R %s >>" % resources,
        5: _stream(content),
    }


def _string(text: str) -> bytes:
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return b"(%s)" % escaped.encode("ascii")


def _shown(text: str) -> bytes:
    lines = b" ".join(b"%s Tj T*" % _string(line) for line in textwrap.wrap(text, 80))
    return b"BT /F 11 Tf 14 TL 40 800 Td " + lines + b" ET"


def _stream(content: bytes, entries: bytes = b"", colours: bytes = b"") -> bytes:
    space = b"/ColorSpace /%s" % colours if colours else b""
    return b"<< %s %s /Length %d >>\nstream\n%s\nendstream" % (entries, space, len(content), content)


def _file(objects: Mapping[int, bytes], trailer: bytes = b"") -> bytes:
    whole, places = b"%PDF-1.5\n", {}
    for number, content in sorted(objects.items()):
        places[number] = len(whole)
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    size = max(objects) + 1
    start = len(whole)
    whole += b"xref\n0 %d\n0000000000 65535 f \n" % size
    whole += b"".join(b"%010d 00000 n \n" % places.get(number, 0) for number in range(1, size))
    return whole + b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)


def locked_pdf() -> bytes:
    """A PDF that opens only with a password."""
    keys = b"/O <%s> /U <%s>" % (b"4b" * 32, b"5c" * 32)
    lock = b"<< /Filter /Standard /V 1 /R 2 /P -4 %s >>" % keys
    objects = {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Kids [] /Count 0 >>", 3: lock}
    return _file(objects, b"/Encrypt 3 0 R /ID [<00><00>]")


def endless_pdf(levels: int = 12, fold: int = 12) -> bytes:
    """A small PDF whose page shows ``fold`` forms, each of which shows as many, ``levels`` deep."""
    resources = b"/Resources << /Font << /F 3 0 R >> /XObject << /X %d 0 R >> >>"
    objects = _one_page(b"/X Do " * fold, b"Helvetica", resources % 10)
    for level in range(10, 10 + levels):
        objects[level] = _stream(
            b"/X Do " * fold, b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] " + resources % (level + 1)
        )
    objects[10 + levels] = _stream(_shown("end"), b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] " + resources % 10)
    return _file(objects)


_DOCUMENT = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{}</w:body></w:document>'
_STYLES = (
    '<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style></w:styles>'
)


def docx(paragraphs: Sequence[str]) -> bytes:
    """A DOCX of a German Word; a paragraph that starts with ``# `` is a heading."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="berschrift1"/></w:pPr><w:r><w:t>{escape(text[2:])}</w:t></w:r></w:p>'
        if text.startswith("# ")
        else f"<w:p><w:r><w:t>{escape(text)}</w:t></w:r></w:p>"
        for text in paragraphs
    )
    return archive({"word/styles.xml": _STYLES.encode(), "word/document.xml": _DOCUMENT.format(body).encode()})


def bomb_docx(megabytes: int = 300) -> bytes:
    """A DOCX of a few megabytes at most that unpacks to ``megabytes``."""
    whole = BytesIO()
    with (
        ZipFile(whole, "w", ZIP_DEFLATED, compresslevel=1) as packed,
        packed.open("word/document.xml", "w") as member,
    ):
        before, after = _DOCUMENT.encode().split(b"{}")
        member.write(before)
        for _ in range(megabytes):
            member.write(b" " * (1 << 20))
        member.write(after)
    return whole.getvalue()


def archive(members: Mapping[str, bytes]) -> bytes:
    whole = BytesIO()
    with ZipFile(whole, "w", ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return whole.getvalue()
