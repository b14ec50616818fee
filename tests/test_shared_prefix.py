"""What a block cache answers of a run's prompts."""

from typing import Any

import pytest

from eval.benchmarks import shared_prefix as prefix
from eval.benchmarks.shared_prefix import SharedPrefix, shared_prefix


def of(*prompts: Any, block: int = 4) -> Any:
    return shared_prefix([("m", question, text) for question, text in prompts], block=block)


def test_the_blocks_of_an_earlier_prompt_are_answered_up_to_the_first_difference() -> None:
    assert of(("q", "aaaabbbbcccc"), ("q", "aaaabbbbxxxxcccc")) == SharedPrefix(prompts=2, total=28, within=8, across=8)


def test_a_block_counts_only_where_all_before_it_is_the_same() -> None:
    assert of(("q", "aaaabbbbc"), ("q", "xxxxbbbbc")).across == 0


def test_only_whole_blocks_are_kept() -> None:
    assert of(("q", "aaaabb"), ("q", "aaaabbbb")).across == 4
    assert of(("q", "aaa"), ("q", "aaa")).across == 0


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    assert of(("q", "aaaabbbb"), ("q", "aaaabbbb")).across == 4
    assert of(("q", "aaaabbbb"), ("q", "aaaabbbbc")).across == 8
    assert of(("q", ""), ("q", "")) == SharedPrefix(prompts=2)


def test_what_questions_share_is_told_from_what_one_question_repeats() -> None:
    found = of(("1", "aaaabbbbz"), ("2", "aaaaccccz"), ("1", "aaaabbbbccccz"), ("2", "aaaaccccz"))
    assert (found.within, found.across) == (8 + 8, 4 + 8 + 8)


def test_tokens_are_taken_as_well_as_characters() -> None:
    found = shared_prefix([("m", "q", range(40)), ("m", "q", [*range(32), 7, 7])])
    assert found == SharedPrefix(prompts=2, total=74, within=32, across=32)


def test_each_server_has_a_cache_of_its_own() -> None:
    sent = [("m@one", "q", "aaaabbbbc"), ("m@two", "q", "aaaabbbbc"), ("m@one", "r", "aaaabbbbc")]
    found = shared_prefix(sent, block=4)
    assert (found.within, found.across) == (0, 8)


def test_a_full_cache_forgets_what_was_used_longest_ago_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix, "_CAPACITY", 3)
    # The second prompt pushes out the last block of the first, whose first two are still there.
    assert of(("q", "aaaabbbbcccc"), ("q", "xxxx"), ("q", "aaaabbbbccccd")).across == 8
    assert of(("q", "aaaa"), ("q", "xxxxyyyyzzzz"), ("q", "aaaab")).across == 0
