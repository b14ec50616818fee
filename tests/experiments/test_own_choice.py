"""Recipes over sources and models of the user: which arms there are, and what is refused."""

import json
from pathlib import Path

import pytest

from madke.core.errors import UserError
from madke.experiments.experiment_spec import read_experiment_spec
from madke.experiments.recipe import Recipe, read_recipe, recipe_files, with_models, with_sources
from madke.retrieval.named import is_sample
from tests.data.published import write
from tests.support.cli import madke, refused

QUESTION = {"id": "q1", "question": "Which bird hovers?", "golden_answers": ["the kestrel"]}


def arms(recipe: Recipe) -> dict[str, str | None]:
    return {arm.name: arm.sources for arm in recipe.all_arms()}


def test_an_arm_for_each_source_becomes_one_for_each_of_the_users() -> None:
    shipped = read_recipe("source-ablation")
    assert arms(with_sources(shipped, ["docs"])) == {"none": "none", "docs": "docs"}
    of_two = {"none": "none", "docs": "docs", "wiki": "wiki", "all": "docs,wiki"}
    assert arms(with_sources(shipped, ["docs", "wiki"])) == of_two


def test_arms_with_all_sources_get_all_of_the_users_and_others_stay() -> None:
    changed = with_sources(read_recipe("equal-cost"), ["docs", "notes"])
    assert arms(changed)["rag"] == "docs,notes"
    assert arms(changed)["cot"] is None
    gold = arms(with_sources(read_recipe("gold-passages"), ["docs"]))
    assert (gold["rag-retrieved"], gold["rag-gold"], gold["rag-none"]) == ("docs", "gold", "none")


def test_a_base_with_one_of_several_sources_is_refused() -> None:
    recipe = {"title": "T", "source": "a test", "base": {"sources": "google"}}
    made = Recipe.model_validate({**recipe, "arms": [{"name": "both", "sources": "wiki,google"}, {"name": "one"}]})
    with pytest.raises(UserError, match="this recipe's base has one of several sources"):
        with_sources(made, ["docs", "notes"])


def test_the_papers_figures_stay_with_arms_that_keep_their_names() -> None:
    by_source = with_sources(read_recipe("madke-figure-4"), ["docs"])
    assert {arm for by_arm in by_source.published.values() for arm in by_arm} == {"madke-none", "madke-reference-none"}
    table = with_sources(read_recipe("madke-table-2"), ["docs"])
    shown = {arm for by_arm in table.published.values() for arm in by_arm}
    assert shown.isdisjoint({"rag", "madke", "madke-reference"})
    assert table.published_with.figures["fever"] == ("label_accuracy",)
    assert with_models(table, ["openai/gpt-4-turbo"]).published_with.figures == table.published_with.figures


REFUSED = ("--models: arm", "--sources: no arm", "source '", "unknown source 'textbooks'", "--sources: this recipe")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in recipe_files() if name != "madc-tables-6-11"])
def test_every_shipped_recipe_takes_the_users_sources_and_models_or_refuses_them(name: str, tmp_path: Path) -> None:
    """None searches the shipped sample. Of the 240 arms of one recipe, ``madc-figure-9`` has 39."""
    questions = write(tmp_path / "q.jsonl", QUESTION | {"choices": ["x", "y"], "golden_answers": ["A"]})
    for options in ({}, {"sources": f"docs={tmp_path},notes={tmp_path}"}, {"models": ["openai/a", "openai/b"]}):
        try:
            spec = read_experiment_spec(name, [questions], **options)
            spec._check_sources()
        except UserError as error:
            assert str(error).startswith(REFUSED), error
            continue
        searched = {source: each for source, each in spec.all_specs.items() if source not in ("context", "gold")}
        assert not any(is_sample(source, each) for source, each in searched.items())
        assert set(searched) <= {"docs", "notes", "textbooks"}


def test_every_arm_runs_with_each_model() -> None:
    changed = with_models(read_recipe("equal-cost"), ["openai/small", "hf/org/large"])
    by_name = {arm.name: arm for arm in changed.all_arms()}
    assert len(by_name) == 18
    assert by_name["cot-small"].model == "openai/small"
    match = by_name["rag-vote-same-calls-large"].match_cost
    assert match is not None
    assert (match.arm, match.unit) == ("madke-large", "rag-large")
    assert changed.reference == "madke-small"
    assert "adaptive-a-m" in arms(with_models(read_recipe("selection-ablation"), ["a/m", "b/m"]))
    with pytest.raises(UserError, match="--models: a model is named twice"):
        with_models(read_recipe("equal-cost"), ["openai/a", "openai/a"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A question and two sources of its own, as the working directory of a command."""
    write(tmp_path / "docs" / "birds.md", "# Kestrel\nThe kestrel hovers over fields.\n")
    write(tmp_path / "notes.md", "# Heron\nThe heron is a bird.\n")
    sources = {"docs": {"documents": "docs", "encoder": "none"}, "notes": {"documents": "notes.md", "encoder": "none"}}
    write(tmp_path / "sources.yaml", sources)
    write(tmp_path / "q.jsonl", QUESTION)
    return tmp_path


@pytest.mark.slow
def test_ablating_the_users_own_sources(folder: Path) -> None:
    command = ("ablate", "source-ablation", "--data", "q.jsonl", "--out", "out")
    assert "source 'wiki' would be the shipped sample" in refused(*command, cwd=folder)
    assert not (folder / "out").exists()
    done = madke(*command, "--sources", "docs,notes", "--models", "offline", cwd=folder)
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (folder / "out" / "arms").iterdir())
    assert names == ["all-offline", "docs-offline", "none-offline", "notes-offline"]
    pools = json.loads((folder / "out" / "pools.jsonl").read_text().splitlines()[0])
    assert {passage["source"] for passage in pools["passages"]} == {"docs", "notes"}


def test_sources_of_a_pool_file_that_no_arm_uses(folder: Path) -> None:
    """An error for a recipe. A run says so, unless --sources has chosen some."""
    passages = [{"source": source, "text": "The kestrel hovers."} for source in ("wiki", "google", "docs")]
    write(folder / "p.jsonl", {"id": "q1", "question": QUESTION["question"], "passages": passages})

    command = ("ablate", "selection-ablation", "--data", "q.jsonl", "--pools", "p.jsonl", "--plan")
    said = refused(*command, cwd=folder)
    assert "p.jsonl: no arm uses source docs of the pool files; name the sources to use, for example" in said
    planned = madke(*command, "--sources", "docs,wiki", cwd=folder)
    assert "sources: docs, wiki\n" in planned.stdout, planned.stderr
