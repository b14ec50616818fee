"""Published datasets, each read as its owner ships it. One module a dataset, or a family of one schema."""

from madke.core.errors import unknown
from madke.data.formats.bbh import GEOMETRIC_SHAPES, LOGICAL_DEDUCTION
from madke.data.formats.ciar import CIAR
from madke.data.formats.commonmt import COMMONMT
from madke.data.formats.fever import FEVER
from madke.data.formats.mathematics import GSM8K, MATH500
from madke.data.formats.mmlu import MMLU, MMLU_MED
from madke.data.formats.multihop import HOTPOTQA, TWO_WIKI
from madke.data.formats.nq_open import NQ_OPEN
from madke.data.formats.ramdocs import RAMDOCS
from madke.data.formats.record import Format, Item, Paragraph, Row
from madke.data.formats.triviaqa import TRIVIAQA

FORMATS = {
    format_.name: format_
    for format_ in (
        TRIVIAQA,
        NQ_OPEN,
        HOTPOTQA,
        TWO_WIKI,
        FEVER,
        MMLU,
        MMLU_MED,
        COMMONMT,
        CIAR,
        MATH500,
        LOGICAL_DEDUCTION,
        GEOMETRIC_SHAPES,
        GSM8K,
        RAMDOCS,
    )
}
"""Name -> format, for names that people give."""


def get_format(name: str) -> Format:
    """The format of that name.

    Raises:
        UserError: There is none; the message suggests the nearest name.
    """
    if name not in FORMATS:
        raise unknown("dataset", name, FORMATS)
    return FORMATS[name]


__all__ = ["FORMATS", "Format", "Item", "Paragraph", "Row", "get_format"]
