"""How much of a run's prompts is a shared prefix, from its call store."""

import json

import pytest

from madke.core.chat import ChatRequest, Completion, Message, Purpose
from madke.core.errors import UserError
from madke.llm.store import CallStore
from madke.runs.prompts import shared_prompts

ROLE = len("<|user|>\n")
"""What is written before a message; a line break comes after it."""


@pytest.fixture
def run(tmp_path):
    """A run whose calls lie in a folder above, as those of an experiment's arms do."""
    directory = tmp_path / "arms" / "one"
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps({"config": {}, "files": {"calls": "../../calls.sqlite"}}))
    return directory


def wrote(run, *calls, payer="one"):
    with CallStore(run / "../../calls.sqlite") as store:
        for n, (question, stage, text, outcome) in enumerate(calls):
            request = ChatRequest(
                messages=(Message(role="user", content=text),),
                purpose=Purpose(question=question, stage=stage, agent=str(n), round=1),
                temperature=0,
                max_tokens=9,
            )
            store.write(str(n), "m", request, Completion(text="x", outcome=outcome), payer=payer)


def test_shares_are_of_all_prompts_with_four_characters_a_token(run):
    prompt = "p" * (256 - ROLE - 1)  # 256 characters with its role: 64 tokens, of which the last block is new
    wrote(run, ("1", "speak", prompt, "ok"), ("1", "judge", prompt, "ok"), ("2", "speak", prompt, "ok"))
    found = shared_prompts(run)
    assert (found.prompts, found.tokens) == (3, 192)
    assert found.within_question == pytest.approx(48 / 192)
    assert found.across_questions == pytest.approx(96 / 192)


def test_of_calls_that_arms_share_those_count_that_the_arm_made(run):
    wrote(run, *[("1", "speak", "p" * 400, "ok")] * 4, payer="earlier")
    assert shared_prompts(run) is None
    wrote(run, ("1", "speak", "p" * 400, "ok"))
    found = shared_prompts(run)
    assert (found.prompts, found.within_question, found.among_arms) == (1, 0, True)


def test_a_run_of_its_own_made_all_calls_of_its_store(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"config": {}, "files": {"calls": "calls.sqlite"}}))
    (tmp_path / "arms" / "one").mkdir(parents=True)
    wrote(tmp_path / "arms" / "one", ("1", "speak", "p" * 400, "ok"), payer="")
    found = shared_prompts(tmp_path)
    assert (found.prompts, found.among_arms) == (1, False)


def test_what_no_debater_was_asked_and_what_failed_is_left_out(run):
    wrote(
        run,
        ("1", "speak", "p" * 100, "failed"),
        ("1", "search", "p" * 100, "ok"),
        ("1", "estimate", "p" * 100, "ok"),
        ("1", "grade", "p" * 100, "ok"),
    )
    assert shared_prompts(run) is None
    wrote(run, ("2", "speak", "p" * 100, "ok"))
    assert shared_prompts(run).prompts == 1


def test_calls_that_are_gone_are_one_line(run):
    with pytest.raises(UserError, match=r"calls\.sqlite.*is not there"):
        shared_prompts(run)
    assert not (run / "../../calls.sqlite").exists()
