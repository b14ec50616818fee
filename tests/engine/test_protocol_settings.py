"""The settings of protocols: what a simulation finds out before any call, what is refused, what 0.4.0 called them."""

import pickle
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from madke._util.assets import asset
from madke.core.errors import UserError
from madke.core.question import Question
from madke.engine.protocol import as_protocol
from madke.engine.steps import overlaps, vote_weight
from madke.engine.variant import load_variant, setting, variant_folders
from madke.tasks.short_answer import ShortAnswer

CALLS = {
    "adaptive-vote": (2, 8), "chateval": (6, 6), "cot": (1, 1), "gated": (2, 6), "isolate": (10, 10),
    "lemmas": (9, 9), "liang": (3, 10), "mad": (6, 6), "mad-brief": (6, 6), "mad-noise": (3, 3), "madc": (20, 20),
    "madke": (5, 16), "madke-live": (5, 16), "madke-reference": (6, 16), "maps": (7, 7), "moa": (7, 7),
    "per-document": (21, 31), "rag": (1, 1), "reconcile": (3, 12), "rerank": (4, 4), "second-turn": (6, 6),
    "self-consistency": (5, 5), "self-reflect": (2, 5), "standard": (1, 1), "views": (6, 6),
}  # fmt: skip
"""Protocol -> the fewest and the most calls of a question."""


def test_the_calls_of_every_protocol() -> None:
    assert {name: load_variant(name).protocol.trace.calls for name in variant_folders()} == CALLS


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("r", [1, 2, 4])
def test_the_papers_formulas_hold_for_the_longest_debates(n: int, r: int) -> None:
    def calls(name: str, **settings: Any) -> tuple[int, int]:
        return load_variant(name).with_settings({"debaters": n, "rounds": r, **settings}).protocol.trace.calls

    assert calls("madke-reference")[1] == 2 * n * r + r + 1
    assert calls("madke-reference", sources=[])[1] == calls("madke-reference", select="all")[1] == n * r + r + 1
    assert calls("mad") == (n * r, n * r)
    assert calls("liang")[1] == (n + 1) * r + 1
    assert calls("lemmas") == (n * r, n * r)
    assert calls("lemmas", end="pick") == (n * r + 1, n * r + 1)


def test_who_reads_whom_is_in_the_trace() -> None:
    trace = load_variant("mad").with_settings({"reads.topology": "sparse(1)", "reads.anonymous": False}).protocol.trace
    assert {call.agent: call.reads for call in trace.differ.calls if call.round == 2} == {
        "Debater 1": ("Debater 2",),
        "Debater 2": ("Debater 3",),
        "Debater 3": ("Debater 1",),
    }


def test_a_setting_is_a_path_and_a_yaml_value() -> None:
    variant = load_variant("madke").with_settings(dict(map(setting, ["per_source=3", "reads={peers: none}"])))
    assert variant.protocol.knowledge.per_source == 3
    assert variant.protocol.model_dump()["reads"]["peers"] == "none"


def test_sources_can_be_chosen_dropped_and_given_back() -> None:
    variant = load_variant("madke").with_sources(["google"])
    assert variant.protocol.knowledge.sources == ("google",)
    without = variant.with_sources([])
    assert without.protocol.knowledge is None
    assert without.with_sources(["wiki"]).protocol.knowledge.select == "adaptive"
    assert variant.with_settings({"sources": "none"}).protocol == without.protocol


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("madke", {"knowledge.select": "all"}, "knowledge.select: since 0.5.0 it is select"),
    ("madke", {"sees.own": "none"}, "sees.own: since 0.5.0 it is reads.own"),
    ("madke", {"finish": "majority"}, "finish: since 0.5.0 it is function"),
    ("madke", {"stop": "never"}, "stop: since 0.5.0 it is early_stop"),
    ("madke", {"talk.groups": [2]}, "talk.groups: since 0.5.0 it is layers"),
    ("madke", {"judge_sees": "all"}, "judge_sees: since 0.5.0 it is a value in the protocol's function"),
    ("madke", {"level": 1}, "unknown parameter 'level'; the function madke has: rounds, reads, order, talk"),
    ("madke", {"function": "madk"}, "unknown protocol function 'madk'; did you mean 'madke'?"),
    ("madke", {"reads.own": "both"}, "reads.own: Input should be"),
    ("madke", {"rounds.x": 1}, "rounds has no fields"),
    ("madke", {"debaters": []}, "1 to 200 debaters"),
    ("madke", {"debaters": [{"name": "A"}, {"name": "A"}]}, "distinct names"),
    ("madke", {"debaters": [{"name": "judge"}]}, "reserved name 'judge'"),
    ("madke", {"debaters": 1}, "needs at least two debaters"),
    ("madke", {"talk": "sequential"}, "needs reads.peers = latest"),
    ("mad", {"order": "madc", "reads.peers": "none"}, "order = madc has no effect"),
    ("mad", {"order.decay": 0.5}, "order.decay and order.score need order.by = madc"),
    ("mad", {"reads.topology": "sparse(x)"}, "'sparse(x)' is not a topology for 3 debaters"),
    ("mad", {"early_stop": "budget"}, "early_stop = budget and token_budget must be set together"),
    ("mad", {"rounds": 10**6}, "a debate of more than"),
    ("mad", {"first_round_given": True, "rounds": 1}, "first_round_given needs rounds >= 2"),
    ("mad", {"function": "reconcile"}, "mad: the votes are weighed, but no template asks for a confidence"),
    ("cot", {"early_stop": "never"}, "early_stop = never has no effect: the protocol has no rounds"),
    ("cot", {"select": "all"}, "the protocol has no sources; add --sources"),
    ("isolate", {"debaters": 3}, "one_each needs a debater for each of up to 10 passages, found 3"),
    ("moa", {"debaters": 6}, "add up to 7 debaters, but there are 6"),
    ("moa", {"layers": [3, 2, 2]}, "the only debater, but 2 speak"),
    ("moa", {"first_round_given": True}, "does not work with layers"),
]


@pytest.mark.parametrize(("name", "settings", "said"), REFUSED)
def test_a_senseless_setting_is_refused_in_one_line(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        load_variant(name).with_settings(settings)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


OLD: dict[str, Any] = {
    "source": "a paper",
    "debaters": 2,
    "knowledge": {"sources": ["wiki"], "per_source": 3, "select": "adaptive", "max_selected": 3},
    "rounds": 3,
    "talk": {"first": "simultaneous", "later": "sequential"},
    "sees": {"peers": "latest", "own": "last", "topology": "full", "anonymous": False, "form": "text"},
    "temperature": 0.5,
    "stop": "judge",
    "finish": "summarizer",
}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, {"function": "madke", "talk": "sequential_later", "select": "adaptive", "per_source": 3}),
        ({"stop": "never", "finish": "majority", "knowledge": None}, {"function": "mad", "sources": ()}),
        ({"talk": {"groups": [3, 1]}, "debaters": 4, "finish": "only"}, {"function": "moa", "layers": (3, 1)}),
        ({"sees": {"peers": "none", "own": "none"}, "finish": "majority"}, {"function": "vote", "layers": None}),
    ],
)
def test_what_0_4_0_wrote_is_read_as_the_nearest_function(changes: dict[str, Any], found: dict[str, Any]) -> None:
    protocol = as_protocol({**OLD, **changes})
    assert {name: getattr(protocol, name) for name in found} == found


def test_a_run_of_somebody_elses_function_is_read_and_imports_nothing() -> None:
    protocol = as_protocol({"function": "this:nobody_has", "source": "theirs", "their_setting": 3, "debaters": 2})
    assert (protocol.function, protocol.their_setting) == ("this:nobody_has", 3)
    assert protocol.roles == ("Debater 1", "Debater 2")


def test_a_protocol_can_be_sent_to_another_process() -> None:
    protocol = load_variant("madke").protocol
    assert pickle.loads(pickle.dumps(protocol)) == protocol


@pytest.mark.parametrize("name", sorted(variant_folders()))
def test_a_shipped_protocol_passes_the_checks_of_ones_own(name: str, tmp_path: Path) -> None:
    """The templates of shipped protocols are not checked as they are loaded, which would take a second for all."""
    shutil.copytree(asset("prompts", name), tmp_path / name)
    assert load_variant(name, tmp_path).protocol == load_variant(name).protocol


def test_the_fingerprint_names_every_prompt_file() -> None:
    names = load_variant("madke").files
    assert {"madke/protocol.yaml", "madke/select.j2", "_shared/question.j2", "tasks/claim.yaml"} <= set(names)


@dataclass  # which has no hash
class Haiku(ShortAnswer):
    name = "haiku"


def test_a_task_may_bring_its_own_wording() -> None:
    task, variant = Haiku(), load_variant("madke")
    values = {"question": Question(id="q", question="Which?"), "round": 1, "rounds": 3, "stances": ()}
    with pytest.raises(UserError, match="haiku"):
        variant.render("summarize", task, values)

    wording = yaml.safe_load(asset("prompts", "tasks", "short_answer.yaml").read_text())
    task.wording = {**wording, "answer": "a haiku"}
    (_, user) = variant.render("summarize", task, values)
    assert user.content.endswith('begins with "The answer is" and gives a haiku.')

    task.wording = {**wording, "goal": 5}
    with pytest.raises(UserError, match="the wording of task 'haiku': goal"):
        variant.render("summarize", task, values)


def test_weights_of_confidences() -> None:
    found = [vote_weight(each) for each in (None, 0, 0.6, 0.61, 0.8, 0.89, 0.9, 0.99, 1)]
    assert found == [0.1, 0.1, 0.1, 0.3, 0.5, 0.5, 0.8, 0.8, 1.0]


def test_overlaps_of_words() -> None:
    assert overlaps(["a b", "A c", "d"]) == [1 / 3, 1 / 3, 0]
    assert overlaps(["only one"]) == [0]
