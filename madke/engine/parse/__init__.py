r"""Parsers of model replies; all return the same typed result.

Model text is untrusted: no text raises, nothing is evaluated, and reading takes linear time. No value is given if the
text does not settle on one; the status says why. Quotations and copies of the request decide nothing. Call
:func:`without_reasoning` first. Figures on recorded text: ``eval/parser.md``.
"""
