"""``python -m tests.frozen``: write the records of a checkout, or compare them with those of another."""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import sys
from pathlib import Path

from tests.frozen.records import PROTOCOLS, differences, prompts_of, recorded


def main() -> int:
    """The exit status: 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="Write the records and prompts of this checkout.")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="Compare this checkout with such a file.")
    parser.add_argument("--prompts", action="store_true", help="Also show the prompts of calls that differ.")
    parser.add_argument("protocols", nargs="*", default=PROTOCOLS, metavar="PROTOCOL", help="Default: all.")
    asked = parser.parse_args()
    if not asked.write and not asked.compare:
        parser.error("expected --write or --compare")
    logging.disable(logging.WARNING)
    texts: dict[str, str] = {}
    records = {name: recorded(name, texts) for name in asked.protocols}
    if asked.write:
        with gzip.open(asked.write, "wt", encoding="utf-8") as file:
            json.dump({"records": records, "texts": texts}, file)
    if not asked.compare:
        return 0
    with gzip.open(asked.compare, "rt", encoding="utf-8") as file:
        other = json.load(file)
    found = [line for name in asked.protocols for line in differences(other["records"].get(name, {}), records[name])]
    print("\n".join(found) or f"{sum(map(len, records.values()))} debates are equal")
    if asked.prompts:
        print(prompts_of(found, other["texts"] | texts))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
