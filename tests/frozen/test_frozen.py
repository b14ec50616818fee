"""Every debate of every shipped protocol goes as it is recorded; see the package for how to record one again."""

import os

import pytest

from tests.frozen.records import PROTOCOLS, differences, keep, kept, prompts_of, recorded

AGAIN = os.environ.get("MADKE_REFREEZE", "")
"""The protocol to record again, or ``all``."""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_debates_of_a_protocol_go_as_recorded(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    texts: dict[str, str] = {}
    found = recorded(protocol, texts)
    changed = differences(kept(protocol), found)
    if AGAIN in (protocol, "all"):
        keep(protocol, found)
        with capsys.disabled():
            print("\n".join(("", *changed)))
        return
    shown = "\n".join(changed[:60])
    assert not changed, f"{len(changed)} lines differ\n{shown}\n{prompts_of(changed, texts, most=3)}"
