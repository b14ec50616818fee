"""A passage is one line of a prompt, whatever white space its source had in it."""

from hypothesis import given
from hypothesis import strategies as st

from madke.core.knowledge import KnowledgePool, Passage
from tests.support.debates import play

WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))


@given(st.text(st.sampled_from("a ") | st.sampled_from("\u00e9\u200b" + WHITE_SPACE), max_size=12))
def test_white_space_is_folded(text: str) -> None:
    pool = KnowledgePool(
        passages=(Passage(source="wiki", key="k", title=text, text=f"{text}.{text}", score=1.0, rank=0),)
    )
    _, model = play("rag", lambda request: "[a]", pool=pool)
    title = f" ({folded})" if (folded := " ".join(text.split())) else ""
    assert f"\nPassage 0{title}: {' '.join(f'{text}.{text}'.split())}\n" in model.requests[0].messages[-1].content
