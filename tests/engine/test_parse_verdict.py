import pytest
from hypothesis import given
from hypothesis import strategies as st

from madke.engine.parse import parse_verdict


@pytest.mark.parametrize(
    ("text", "consensus"),
    [
        ("They agree. [Yes]", True),
        ("**[yes.]**", True),
        ("[NO].", False),
        ("Yes.", True),
        ("[Yes] would need the same city.\n\n[No]", False),
        ("If they agreed it were [Yes].\nVerdict: [No].", False),
        ("It is [No], not [Yes]", None),
        ("Debater 1's answer: [No]\nDebater 2's answer: [No]\nThe same. My decision is: [Yes]", True),
        ("Debater 1: [No]. Debater 2: [No]. Decision: [Yes]", True),
        ("Debater 1 answers [Yes]. Debater 2 answers [No]. They differ, so [No].", False),
        ("Debater 1 answers [Yes]. Debater 2 answers [Yes, partly]. These are different.", None),
        ("Debater 1 and Debater 2 give the same answer: [Yes]", True),
        ("Reply [Yes or No]", None),
        ("[Yes/No]", None),
        ("The answers agree.", None),
        ("", None),
        ("No doubt they agree.", None),
    ],
)
def test_verdicts(text, consensus):
    parsed = parse_verdict(text)
    assert parsed.value is consensus
    assert (parsed.status == "ok") == (consensus is not None)


@given(st.text(max_size=60))
def test_no_text_without_a_marker_is_a_consensus(text):
    if "yes" not in text.lower():
        assert parse_verdict(text).value is not True
