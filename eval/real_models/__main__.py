"""Write the page of the study of real models from its kept results: ``python -m eval.real_models``.

The texts are read with today's reader. Prompts are not rendered, and no model is called.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eval.real_models.kept import BASELINES, SWAPPED, KeptCell, read_kept
from eval.real_models.questions import Split
from eval.real_models.table import page, read_otherwise
from eval.studies.reread import reread_arm
from madke._util.files import write_file
from madke.engine.variant import load_variant
from madke.retrieval.pools.pool_file import PoolRecord

_HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m eval.real_models", description=__doc__)
    parser.add_argument("--calls", type=Path, default=_HERE / "calls", metavar="FOLDER", help="kept results")
    parser.add_argument("--page", type=Path, default=_HERE.with_suffix(".md"), metavar="FILE", help="the page")
    options = parser.parse_args(arguments)
    kept = [cell for file in sorted(options.calls.glob("*.jsonl.xz")) for cell in read_kept(file)]
    _, pools = Split.of(_HERE / "split", "heldout").read()
    anew = [read_anew(cell, pools) for cell in kept]
    write_file(options.page, f"{page(anew)}{read_otherwise(kept, anew)}".encode())


def read_anew(cell: KeptCell, pools: Mapping[str, PoolRecord]) -> KeptCell:
    """A kept run with today's readings of its texts; with other prompts, it is read as the shipped protocol."""
    is_plain = cell.kind in BASELINES
    name = cell.kind if is_plain else "madke" if cell.arm == SWAPPED else cell.arm
    protocol = load_variant(name, _HERE / "baselines" if is_plain else None).protocol
    transcripts = reread_arm(cell.transcripts, protocol, pools if protocol.knowledge else {}).transcripts
    return replace(cell, transcripts=tuple(transcripts))


if __name__ == "__main__":
    main()
