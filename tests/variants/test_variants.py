import pytest

from madke.core.errors import UserError
from madke.core.question import Question
from madke.variants import load_variant
from madke.variants.load import setting

QUESTION = Question(id="q", question="Which metal is liquid?", task="choice", choices=("tin", "mercury"))
VALUES = {"question": QUESTION, "round": 1, "rounds": 3}


def test_madkes_defaults_are_the_papers():
    protocol = load_variant("madke").protocol
    assert (len(protocol.cast), protocol.rounds, protocol.temperature) == (2, 3, 0.5)
    knowledge = protocol.knowledge
    assert (knowledge.sources, knowledge.per_source, knowledge.max_selected) == (("wiki", "google"), 5, 3)
    assert (protocol.talk.first, protocol.talk.later, protocol.sees.peers) == (
        "simultaneous",
        "simultaneous",
        "last_round",
    )
    assert (protocol.stop, protocol.finish) == ("judge", "summarizer")


def test_a_setting_is_a_path_and_a_yaml_value():
    variant = load_variant("madke").with_settings(dict(map(setting, ["knowledge.per_source=3", "sees={peers: none}"])))
    assert variant.protocol.knowledge.per_source == 3
    assert variant.protocol.sees.peers == "none"


def test_sources_can_be_chosen_dropped_and_given_back():
    variant = load_variant("madke").with_sources(["google"])
    assert variant.protocol.knowledge.sources == ("google",)
    without = variant.with_sources([])
    assert without.protocol.knowledge is None
    assert without.with_sources(["wiki"]).protocol.knowledge.select == "all"
    assert variant.with_settings({"knowledge": "none"}).protocol == without.protocol


def test_options_are_lettered_and_stand_with_the_question():
    (_, user) = load_variant("madke").render("judge", "choice", {**VALUES, "stances": ()})
    assert "\nQuestion: Which metal is liquid?\n(A) tin\n(B) mercury\n\nReason step by step.\n" in user.content


def test_a_persona_is_part_of_the_system_text():
    settings = {"debaters": [{"name": "Ada", "persona": "You are a chemist."}, {"name": "Bo"}]}
    variant = load_variant("madke").with_settings(settings)
    assert [debater.name for debater in variant.protocol.cast] == ["Ada", "Bo"]
    (system, _) = variant.render(
        "speak", "choice", {**VALUES, "persona": "You are a chemist.", "knowledge": [], "prepared": {}}
    )
    assert system.content.endswith("You are a chemist.")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"debaters": []}, "at least one"),
        ({"debaters": [{"name": "A"}, {"name": "A"}]}, "distinct names"),
        ({"debaters": [{"name": "judge"}]}, "cannot be called 'judge'"),
        ({"debaters": 1}, "one cannot agree with itself"),
        ({"finish": "only"}, "exactly one debater, found 2"),
        ({"talk.first": "sequential"}, "needs sees.peers = latest"),
        ({"rounds.x": 1}, "has no 'rounds' with fields"),
        ({"temperature": -1}, "greater than or equal to 0"),
    ],
)
def test_impossible_protocols_are_refused(settings, said):
    with pytest.raises(UserError, match=said):
        load_variant("madke").with_settings(settings)


def test_the_fingerprint_names_every_prompt_file():
    names = load_variant("madke").fingerprint()
    assert {"madke/protocol.yaml", "madke/select.j2", "_shared/question.j2", "tasks/claim.yaml"} <= set(names)
