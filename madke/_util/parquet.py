"""Rows as Parquet, by pyarrow, which is imported on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import IO, Any

from madke._util.assets import require

TEXT, TEXTS, WHOLE, WHOLES, REAL, FLAG = "text", "texts", "whole", "wholes", "real", "flag"
"""Kinds of columns."""

_ROWS_AT_A_TIME = 1000


def write_rows(
    file: IO[bytes],
    columns: Mapping[str, str],
    rows: Iterable[Mapping[str, Any]],
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Write rows with these columns (name -> kind); returns their number. UserError if pyarrow is missing."""
    require("Parquet files need", "report", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    text, whole = pyarrow.string(), pyarrow.int64()
    types = {TEXT: text, TEXTS: pyarrow.list_(text), WHOLE: whole, WHOLES: pyarrow.list_(whole)}
    types |= {REAL: pyarrow.float64(), FLAG: pyarrow.bool_()}
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()], metadata=metadata)
    count, waiting = 0, iter(rows)
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(waiting, _ROWS_AT_A_TIME)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count
