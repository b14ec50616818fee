"""From a drawn figure to bytes: SVG for a page that holds others, and files for papers."""

from __future__ import annotations

import io
import re
from typing import Literal
from xml.etree import ElementTree

from madke.report.figures.canvas import INK, Drawing

Format = Literal["pdf", "svg", "png"]

_PNG_DPI = 200
_UNSAID = {"png": ("Software",), "pdf": ("Creator", "Producer", "CreationDate"), "svg": ("Creator", "Date")}
"""What matplotlib would note in each format, and would make files of equal figures differ."""

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#(.+)\)")


def file_bytes(drawing: Drawing, form: Format) -> bytes:
    """The figure as a file of its own; the same bytes each time."""
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": drawing.name}):
        drawing.figure.savefig(
            out,
            format=form,
            dpi=_PNG_DPI if form == "png" else 72,
            facecolor="white" if form == "png" else "none",
            metadata=dict.fromkeys(_UNSAID[form]),
        )
    return out.getvalue()


def page_svg(drawing: Drawing) -> str:
    """The figure as an ``<svg>`` element.

    It has a ``viewBox`` and no size; title and caption for screen readers; no style sheet, which would reach the whole
    page, and no ``style`` attribute, as a strict content security policy wants it; and ids that begin with
    ``figure-NAME-``.
    """
    root = ElementTree.fromstring(file_bytes(drawing, "svg"))
    prefix = f"figure-{drawing.name}-"
    for parent in list(root.iter()):
        for child in [*parent.iterfind(f"{_SVG}metadata"), *parent.iterfind(f"{_SVG}style")]:
            parent.remove(child)
    elements = list(root.iter())
    for element in elements:
        _make_plain(element, prefix)
    used = {value.removeprefix("#") for element in elements if (value := element.get("href"))}
    used |= {found[1] for element in elements for value in element.attrib.values() if (found := _reference(value))}
    for element in elements:
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {
        "xmlns": _SVG[1:-1],
        "role": "img",
        "aria-labelledby": f"{prefix}title",
        "aria-describedby": f"{prefix}caption",
        # What matplotlib's style sheet said.
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    title, caption = (
        ElementTree.Element("title", id=f"{prefix}title"),
        ElementTree.Element("desc", id=f"{prefix}caption"),
    )
    title.text, caption.text = drawing.title, drawing.caption
    root[:0] = [title, caption]
    return ElementTree.tostring(root, encoding="unicode")


def _make_plain(element: ElementTree.Element, prefix: str) -> None:
    """Leave no name space and no style; prefix ids and references; let ink be the colour of the text around."""
    element.tag = element.tag.removeprefix(_SVG)
    attributes = dict(element.attrib)
    # SVG has an attribute for each part of a style. The font is the page's.
    for part in filter(None, attributes.pop("style", "").split(";")):
        name, value = part.split(":", 1)
        if name.strip() != "font-family":
            attributes[name.strip()] = value.strip()
    if link := attributes.pop(_LINK, ""):
        attributes["href"] = f"#{prefix}{link[1:]}"
    if "id" in attributes:
        attributes["id"] = prefix + attributes["id"]
    for name, value in attributes.items():
        if found := _reference(value):
            attributes[name] = f"url(#{prefix}{found[1]})"
        elif value == INK:
            attributes[name] = "currentColor"
    element.attrib.clear()
    element.attrib.update(attributes)


def _reference(value: str) -> re.Match[str] | None:
    return _REFERENCE.fullmatch(value)
