"""The texts of passages, which transcripts leave out: from the pool file of each run, each text once."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

from madke.core.errors import UserError
from madke.core.transcript import Transcript
from madke.knowledge.pool_file import PoolRecord, read_pools
from madke.report.page.blocks import Blocks
from madke.runs.results import Results
from madke.runs.run_json import run_files
from madke.runs.run_pools import lines_of

Held = Literal["none", "held", "missing", "changed"]
"""Whether a run's passages can be shown: it had none, they are here, their file is gone, or it is another one now."""


class PassageTexts:
    """Numbers for the texts of passages, the same text having one number in all runs.

    One pool file is in memory at a time.
    """

    def __init__(self) -> None:
        self.blocks = Blocks("texts", 200)
        self._numbers: dict[bytes, int] = {}
        self._frozen: Mapping[str, str] = {}
        self._records: Mapping[str, PoolRecord] = {}

    def open(self, results: Results) -> Held:
        """Take the passages of this run from now on."""
        frozen = results.config.pools if results.config else {}
        if not frozen:
            self._frozen, self._records = {}, {}
            return "none"
        if frozen == self._frozen:
            return "held"
        self._frozen, self._records = {}, {}
        try:
            file = run_files(results.path).pools
            if file is None or not file.is_file():
                return "missing"
            if {id_: found for id_, (found, _) in lines_of(file, frozen).items()} != frozen:
                return "changed"
            self._records = read_pools(file, only=frozen)
        except UserError:
            return "missing"
        self._frozen = frozen
        return "held"

    def of(self, transcript: Transcript) -> list[int | None]:
        """The number of each passage of a debate's pool; None for one that the pool file does not hold.

        What stands under a number is ``[text, url, date]``.
        """
        record = self._records.get(transcript.id)
        if record is None:
            return []
        held = {(passage.source, passage.key): passage for passage in reversed(record.passages)}
        passages = [held.get((entry.source, entry.key)) for entry in transcript.pool]
        return [self._number(found.text, found.url, found.date) if found else None for found in passages]

    def _number(self, text: str, url: str | None, date: str | None) -> int:
        key = blake2b(repr((text, url, date)).encode("utf-8", "replace"), digest_size=16).digest()
        if key not in self._numbers:
            self._numbers[key] = self.blocks.add([text, url, date])
        return self._numbers[key]
