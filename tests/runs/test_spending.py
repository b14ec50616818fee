"""What a run's recorded calls took: cost, and how much of the prompts is a shared prefix, from its call store."""

import asyncio
import json

import pytest

from madke.core.chat import ChatRequest, Completion, Message, Purpose, Usage
from madke.core.errors import UserError
from madke.engine.protocol import Protocol
from madke.llm.prices import Price
from madke.llm.store import CallStore, Stored
from madke.runs.spec import RunSpec
from madke.runs.spending import run_spending
from tests.support.tiny_model import NO_SYSTEM, save_tiny_model

ROLE = len("<|user|>\n")
"""What is written before a message; a line break comes after it."""


def write_run(directory, calls, *models):
    directory.mkdir(parents=True, exist_ok=True)
    config = RunSpec(
        data="q.jsonl",
        questions={"1": ""},
        variant="madke",
        protocol=Protocol(source="a test"),
        prompts_sha256={},
        models={f"role {n}": model for n, model in enumerate(models)},
        source_specs={},
        seed=0,
        repeats=1,
    )
    record = {
        "format": 2,
        "spec": config.model_dump(mode="json"),
        "endpoints": {},
        "sessions": [{"files": {"calls": calls}}],
    }
    (directory / "run.json").write_text(json.dumps(record))
    return directory


@pytest.fixture
def run(tmp_path):
    """A run whose calls lie in a folder above, as those of an experiment's arms do."""
    return write_run(tmp_path / "arms" / "one", "../../calls.sqlite", "m")


class Answering:
    """A model that answers everything with this."""

    def __init__(self, name, outcome="ok", usage=None):
        self.name = name
        self._completion = Completion(text="x", outcome=outcome, usage=usage or Usage())

    async def complete(self, request):
        return self._completion


def made(run, *calls, payer="one", model="m", file="../../calls.sqlite", usage=None, system=None):
    """Make calls of (question, stage, prompt, outcome) through the run's call store."""

    async def ask():
        with CallStore(run / file) as store:
            for n, (question, stage, text, outcome) in enumerate(calls):
                messages = (Message(role="user", content=text),)
                request = ChatRequest(
                    messages=(Message(role="system", content=system), *messages) if system else messages,
                    purpose=Purpose(question=question, stage=stage, agent=f"{payer} {n}", round=1),
                    temperature=0,
                    max_tokens=9,
                )
                await Stored(Answering(model, outcome, usage), store, payer=payer).complete(request)

    asyncio.run(ask())


def test_shares_are_of_all_prompts_with_four_characters_a_token(run):
    prompt = "p" * (256 - ROLE - 1)  # 256 characters with its role: 64 tokens, of which the last block is new
    made(run, ("1", "speak", prompt, "ok"), ("1", "judge", prompt, "ok"), ("2", "speak", prompt, "ok"))
    found = run_spending(run)
    assert (found.prompts, found.prompt_tokens, found.estimated) == (3, 192, True)
    assert found.shared_within_question == pytest.approx(48 / 192)
    assert found.shared_across_questions == pytest.approx(96 / 192)


def test_each_model_and_endpoint_has_a_cache_of_its_own(run):
    prompt = ("1", "speak", "p" * 400, "ok")
    made(run, prompt, model="openai/m@http://a/v1")
    made(run, prompt, model="openai/m@http://b/v1")
    assert run_spending(run).shared_across_questions == 0
    made(run, ("2", *prompt[1:]), model="openai/m@http://b/v1")
    assert run_spending(run).shared_across_questions > 0


def test_of_calls_that_arms_share_those_count_that_the_arm_made(run):
    made(run, *[("1", "speak", "p" * 400, "ok")] * 4, payer="earlier")
    assert run_spending(run) is None
    made(run, ("1", "speak", "p" * 400, "ok"))
    found = run_spending(run)
    assert (found.prompts, found.shared_within_question, found.among_arms) == (1, 0, True)


def test_a_run_of_its_own_made_all_calls_of_its_store(tmp_path):
    run = write_run(tmp_path, "calls.sqlite", "m")
    made(run, ("1", "speak", "p" * 400, "ok"), payer="", file="calls.sqlite")
    found = run_spending(run)
    assert (found.prompts, found.among_arms) == (1, False)


def test_what_no_debater_was_asked_and_what_failed_is_in_no_share(run):
    made(
        run,
        ("1", "speak", "p" * 100, "failed"),
        ("1", "search", "p" * 100, "ok"),
        ("1", "estimate", "p" * 100, "ok"),
        ("1", "grade", "p" * 100, "ok"),
    )
    assert run_spending(run).prompts == 0
    made(run, ("2", "speak", "p" * 100, "ok"))
    assert run_spending(run).prompts == 1


def test_cost_is_by_stage_of_failed_calls_too_and_names_the_models_without_a_price(run):
    usage = Usage(prompt_tokens=1_000_000, cached_tokens=500_000, completion_tokens=100_000)
    made(run, ("1", "speak", "p", "ok"), ("1", "speak", "p", "refused"), ("1", "judge", "p", "ok"), usage=usage)
    made(run, ("1", "speak", "p", "ok"), model="free", usage=usage)
    made(run, ("1", "search", "p", "ok"), model="a search", usage=Usage())
    found = run_spending(run, {"m": Price(prompt=2, cached=1, completion=10)})
    assert found.cost == pytest.approx({"speak": 5.0, "judge": 2.5})
    assert found.unpriced == ("free",)
    assert (run_spending(run).cost, run_spending(run).unpriced) == ({}, ())


def test_where_no_call_is_recorded_nothing_is_known(run, tmp_path):
    assert run_spending(run) is None
    assert run_spending(tmp_path) is None
    assert not (run / "../../calls.sqlite").exists()


@pytest.mark.parametrize("template", [None, NO_SYSTEM])
def test_the_prompts_of_a_local_model_are_counted_in_its_own_tokens(tmp_path, template):
    pytest.importorskip("transformers")
    folder = save_tiny_model(tmp_path / "model", **({"template": template} if template else {}))
    run = write_run(tmp_path / "arms" / "one", "../../calls.sqlite", f"hf/{folder}")
    made(run, ("1", "speak", "p" * 40, "ok"), ("1", "judge", "p" * 40, "ok"), model=f"hf/{folder}", system="Be brief.")
    found = run_spending(run)
    # A byte is a token, and so is the end of a message.
    told = len("Be brief.\n\n") if template else len("<|system|>Be brief.") + 1
    each = told + len("<|user|>") + 40 + 1 + len("<|assistant|>")
    assert (found.prompt_tokens, found.estimated) == (2 * each, False)
    assert found.shared_within_question == pytest.approx((each - 1) // 16 * 16 / (2 * each))


def test_a_tokenizer_can_be_given_as_a_folder_or_a_file(run, tmp_path):
    pytest.importorskip("transformers")
    folder = save_tiny_model(tmp_path / "model")
    made(run, ("1", "speak", "p" * 40, "ok"))
    as_chat = len("<|user|>") + 40 + 1 + len("<|assistant|>")
    assert run_spending(run, tokenizer=folder).prompt_tokens == as_chat
    without_template = run_spending(run, tokenizer=f"{folder}/tokenizer.json")
    assert (without_template.prompt_tokens, without_template.estimated) == (ROLE + 40 + 1, False)


def test_a_tokenizer_that_is_none_is_one_line(run, tmp_path):
    pytest.importorskip("transformers")
    made(run, ("1", "speak", "p" * 40, "ok"))
    (tmp_path / "none.json").write_text("[]")
    with pytest.raises(UserError, match=r"none\.json' cannot be loaded as a tokenizer"):
        run_spending(run, tokenizer=str(tmp_path / "none.json"))


def test_a_local_model_that_is_not_here_is_estimated(tmp_path):
    run = write_run(tmp_path / "arms" / "one", "../../calls.sqlite", f"hf/{tmp_path}/gone")
    made(run, ("1", "speak", "p" * 40, "ok"), model=f"hf/{tmp_path}/gone")
    assert run_spending(run).estimated
