"""Random valid protocols, and a variant whose templates show every value of every stage."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, get_args

from hypothesis import assume
from hypothesis import strategies as st
from pydantic import ValidationError

from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import STAGES
from madke.engine.roles import PREPARE_VALUES, STAGE_VALUES
from madke.variants import Variant, load_variant

NOTES = ("notes", "plan")
"""Stages of debaters who prepare."""
PROMPT = "own"
"""Debaters with this prompt have templates of their own."""
SOURCES = ("wiki", "google")


def values_of(field: str, model: Any = Protocol) -> list[Any]:
    """The values of a field that has a fixed list of them."""
    return list(get_args(model.model_fields[field].annotation))


def part(name: str) -> Any:
    """The class of a section of a protocol."""
    return {"talk": Protocol.model_fields["talk"].annotation}[name]


@st.composite
def protocols(draw: Any, *, largest: int = 3, longest: int = 3) -> Protocol:
    """A valid protocol. Fields are drawn one by one, so a contradiction is drawn again."""
    n = draw(st.integers(1, largest))
    fields = Protocol.model_fields
    knowledge = draw(st.none() | _knowledge(n))
    content: dict[str, Any] = {
        "source": "a test",
        "debaters": draw(st.just(n) | _cast(n)),
        "knowledge": knowledge,
        "rounds": draw(st.integers(1, longest)),
        "talk": draw(_section("talk")),
        "sees": draw(_sees(n)),
        "order": draw(st.sampled_from([{"by": "fixed"}, {"by": "random"}, {"by": "madc"}, {"by": "truth_last"}])),
        "marker": draw(st.sampled_from(values_of("marker"))),
        "examples": draw(st.sampled_from([0, 0, 1, 2])),
        "cite": draw(st.booleans()),
        "level": draw(st.sampled_from(values_of("level"))),
        "temperature": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "max_tokens": draw(st.sampled_from([256, 1024])),
        "stop_strings": draw(st.sampled_from([(), ("END",)])),
        "structured": draw(st.sampled_from(["auto", "off"])),
        "overflow": draw(st.sampled_from(values_of("overflow"))),
        "first_round_given": draw(st.booleans()),
        "judge_sees": draw(st.sampled_from(values_of("judge_sees"))),
        "stop": draw(st.sampled_from(values_of("stop"))),
        "agreement_share": draw(st.sampled_from([1, 1, 0.75])),
        "finish": draw(st.sampled_from(values_of("finish"))),
        "extract": draw(st.sampled_from(values_of("extract"))),
    }
    assert content.keys() | {"token_budget"} == fields.keys(), "a new field needs its values here"
    if content["stop"] == "budget":
        content["token_budget"] = 1_000_000
    if content["stop"] not in ("agreement", "agreement_then_judge"):
        content["agreement_share"] = 1
    if content["finish"] != "judge_extract":
        content["extract"] = "unsettled"
    if content["sees"]["form"] == "chat":
        content["sees"] |= {"peers": "history", "own": "history"}
    return valid(content)


def valid(content: dict[str, Any]) -> Protocol:
    """The protocol; another example if it is none."""
    try:
        return Protocol.model_validate(content)
    except ValidationError:
        assume(False)
        raise


def _section(name: str) -> Any:
    model: Any = Protocol.model_fields[name].annotation
    names = [field for field in model.model_fields if field != "groups"]  # few would fit: test_moa, test_adaptive_vote
    return st.fixed_dictionaries({field: st.sampled_from(values_of(field, model)) for field in names})


def _sees(n: int) -> Any:
    model: Any = Protocol.model_fields["sees"].annotation
    matrix = st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)
    return st.fixed_dictionaries(
        {
            "peers": st.sampled_from(values_of("peers", model)),
            "own": st.sampled_from(values_of("own", model)),
            "topology": st.sampled_from(["full", "full", "ring", "star", "sparse(1)"]) | matrix,
            "anonymous": st.booleans(),
            "grouped": st.booleans(),
            "form": st.sampled_from(["text", "text", "text", "chat"]),
        }
    )


def _cast(n: int) -> Any:
    names = ["Ada", "Bo", "Cy", "Di"][:n]
    debater = st.fixed_dictionaries(
        {
            "persona": st.sampled_from(["", "", "You doubt.", "You are quick."]),
            "prompt": st.sampled_from([None, None, PROMPT]),
            "model": st.sampled_from([None, None, "other"]),
            "temperature": st.sampled_from([None, None, 0.9]),
            "prepare": st.sampled_from([(), (), NOTES[:1], NOTES]),
        }
    )
    return st.lists(debater, min_size=n, max_size=n).map(
        lambda found: [{"name": name, **each} for name, each in zip(names, found, strict=True)]
    )


def _knowledge(n: int) -> Any:
    return st.fixed_dictionaries(
        {
            "sources": st.sampled_from([SOURCES, SOURCES[:1]]),
            "per_source": st.sampled_from([1, 2]),
            "query": st.sampled_from(["none", "none", "rewrite", "decompose"]),
            "rerank": st.sampled_from([None, None, "llm", "hf/x", "x@http://localhost/v1"]),
            "select": st.sampled_from(["adaptive", "adaptive", "all", "one_each", "none"]),
            "max_selected": st.sampled_from([1, 3]),
            "allow_search": st.booleans(),
        }
    )


@cache
def _folder() -> Path:
    folder = Path(mkdtemp()) / "any"
    folder.mkdir()
    (folder / "protocol.yaml").write_text("source: a test\n", encoding="utf-8")
    for stage in (*STAGES, *NOTES):
        values = sorted(STAGE_VALUES.get(stage, PREPARE_VALUES))
        shown = "".join(f"{name}: {{{{ {name} }}}}\n" for name in values if name not in ("bound", "own", "task"))
        own = "{% block own %}{{ own or '' }}{% endblock %}" if "own" in values else ""
        for name in (stage, f"{stage}.{PROMPT}"):
            text = (
                f"{{% block system %}}{name}{{% endblock %}}{own}{{% block user %}}{shown}Confidence?{{% endblock %}}"
            )
            (folder / f"{name}.j2").write_text(text, encoding="utf-8")
    return folder


def variant_of(protocol: Protocol) -> Variant:
    """A variant with this protocol, whose prompts show all values of their stages."""
    return replace(load_variant("any", _folder().parent), protocol=protocol)
