"""A debate drawn from its protocol is the debate that the engine plays."""

from collections import Counter
from typing import Any, get_args

import pytest

from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import Order
from madke.report.diagram import FINISH_LINES, MAX_COLUMNS, STOP_LINES, diagram, stances_read
from madke.variants import load_variant, variant_folders
from tests.support.any_variant import play_any, stating

MADKE = """\
madke
source      Wang et al., 2023, Learning to Break: Knowledge-Enhanced
            Reasoning in Multi-Agent Debate System
settings    all defaults
cast        Debater 1, Debater 2; judge; summarizer
pool        passages of wiki 5, google 5
prompts     answers end with "The answer is X."
requests    temperature 0.5; at most 1,024 tokens; JSON schemas where the
            endpoint takes them; a prompt that is too long fails

┌─ round 1, all at once
│  each        selects up to 3 passages of the pool; then speaks
│  reads       nobody else
│  judge       reads the stances of the round: settled -> finish
├─ rounds 2 to 3, all at once
│  each        selects up to 3 passages of the pool, seeing its own last stance;
│              then replies
│  reads                     1  2
│               1 Debater 1  <  <
│               2 Debater 2  <  <
│              < its stance of the previous round
│  judge       reads the stances of the round: settled -> finish
└─ finish
   answer      the summarizer reads the stances of the last round and states the
               answer

calls       n r select + n r speak + r judge + 1 summarize
            n = 2; r = 1: 6; r = 3: 16
            as many calls as a vote of 6 to 16 samples (self-consistency,
            debaters=16)
            no selection from an empty pool
"""


def drawn(name: Any, **settings: Any) -> Any:
    """The diagram without the rules behind its headings."""
    text = diagram(name, load_variant(name).with_settings(settings).protocol)
    return "".join(f"{line.rstrip(' ─')}\n" for line in text.splitlines())


def unwrapped(text: str) -> str:
    """A diagram with the lines of a sentence joined."""
    return " ".join(text.replace("│", "").split())


def test_madke_is_drawn_as_its_paper_has_it() -> None:
    assert drawn("madke") == MADKE


def test_liang_speaks_in_turn_over_the_whole_history() -> None:
    text = drawn("liang")
    first, later = text.split("├─ rounds 2 to 3, in turn")
    assert "┌─ round 1, in turn" in first
    for name, reads in (("1 Affirmative", ".  ."), ("2 Negative   ", "=  .")):
        assert f"{name}  {reads}\n" in first
    for name in ("1 Affirmative", "2 Negative   "):
        assert f"{name}  *  *\n" in later
    assert text.count("judge       reads all stances so far: settled -> finish") == 2
    assert "the judge's answer if it settled the debate; otherwise the judge reads all" in unwrapped(later)
    assert "n = 2; r = 1: 3 to 4; r = 3: 9 to 10\n" in later


def test_liang_without_adaptive_break_extracts_in_every_round() -> None:
    text = drawn("liang", stop="never", extract="each_round")
    assert "settled" not in text
    assert text.count("judge       reads all stances so far and states an answer, which is recorded") == 2
    assert "n = 2; r = 3: 9\n" in text


def test_madc_reads_in_the_order_of_path_consistency() -> None:
    text = drawn("madc")
    first, later = text.split("├─ round 2, all at once")
    assert "Debater 1 to Debater 10\n" in first
    assert "reads       nobody else" in first
    assert "order" not in first.partition("┌")[2]
    assert f" 10 Debater 10{'  <' * 10}\n" in later
    assert "ascending path consistency: the debater that most others agree with is last" in unwrapped(later)
    assert "n = 10; r = 2: 20\n" in later


def test_what_differs_from_the_defaults_is_named_as_set_takes_it() -> None:
    settings = {"debaters": 30, "sees.topology": "ring", "order.by": "random", "knowledge": None}
    assert "settings    debaters=30, knowledge=none, sees.topology=ring, order.by=random\n" in drawn(
        "madke", **settings
    )


def test_many_debaters_are_counted_instead_of_drawn() -> None:
    assert "reads       2 of the 29 others" in drawn("madke", debaters=30, **{"sees.topology": "ring"})
    assert "reads       1 to 29 of the 29 others" in drawn("madke", debaters=30, **{"sees.topology": "star"})


def test_a_summary_is_read_in_place_of_the_others() -> None:
    protocol = Protocol(source="", talk={"later": "simultaneous_with_summary"})
    text = diagram("x", protocol)
    assert "the summary of the previous round; its own stance of the previous round" in unwrapped(text)


@pytest.mark.parametrize("name", variant_folders())
def test_every_shipped_variant_fits_the_page(name: Any) -> None:
    lines = diagram(name, load_variant(name).protocol).splitlines()
    assert max(map(len, lines)) <= MAX_COLUMNS
    assert lines[0] == name


def test_every_value_that_a_protocol_can_have_is_drawn() -> None:
    fields = Protocol.model_fields
    assert set(STOP_LINES) == set(get_args(fields["stop"].annotation))
    assert set(FINISH_LINES) == set(get_args(fields["finish"].annotation))
    for by in set(get_args(Order.model_fields["by"].annotation)) - {"fixed"}:
        assert "order  " in diagram("x", Protocol(source="", order={"by": by}))


def test_names_and_personas_of_a_user_are_text_on_a_line() -> None:
    name = "Ada round 9 \u202e[31m" + "x" * 60
    debaters = [{"name": name, "persona": "p\n" * 500, "model": "m", "temperature": 0, "prompt": "ada"}, {"name": "Bo"}]
    text = diagram("x", Protocol(source="s\ns", debaters=debaters, sees={"topology": [[0, 1], [1, 0]]}))
    assert max(map(len, text.splitlines())) <= MAX_COLUMNS
    assert "\u202e" not in text
    assert not any(line.startswith("round 9") for line in text.splitlines())


@pytest.mark.parametrize("name", variant_folders())
def test_the_matrix_says_whom_debaters_really_read(name: Any) -> None:
    variant = load_variant(name)
    protocol = variant.protocol

    def never_agreeing(request: Any) -> Any:
        said = stating(protocol, f"Lake {request.purpose.agent} {request.purpose.round}")
        return {"select": "[0]", "judge": "[No]", "reflect": "[No]"}.get(request.purpose.stage, said)

    transcript, _ = play_any(variant, never_agreeing)
    assert len(transcript.rounds) == protocol.rounds
    for entry in transcript.rounds:
        drawn = stances_read(protocol, entry.n)
        for turn in entry.turns:
            shown = {
                agent: len(rounds) for agent, rounds in drawn[turn.agent].items() if rounds and agent != turn.agent
            }
            assert Counter(turn.reads) == shown, (entry.n, turn.agent)
