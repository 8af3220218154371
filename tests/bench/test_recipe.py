"""Recipes: those of the package are the paper's; a user's own are checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench import paper_numbers as paper
from ipl.bench.recipe import Recipe, read_recipe, read_recipes, recipe_names
from ipl.bench.records import read_records
from ipl.bench.run import Run
from ipl.bench.tables.paper_comparison import setting_differences
from ipl.support.errors import IplError
from tests.helpers.records import record_of, write_records

FIVE = ("cocoop", "coop", "kgcoop", "maple", "promptsrc")
OWN = """
protocol: base-to-novel
datasets: [eurosat, oxford_pets]
arms: words
words: [0, 2]
seeds: 1
lambda: 0.3
per_dataset:
  oxford_pets: {words: 3, lambda: 0.2, epochs: 40}
"""


def runs_of(name: str, **values: Any) -> tuple[Run, ...]:
    """Returns the runs of a recipe of the package with all data there."""
    recipe = read_recipe(name)
    targets = {"cross-dataset": paper.TARGETS, "domain": paper.VARIANTS}
    datasets = targets.get(recipe.values["protocol"], paper.ELEVEN)
    return recipe.override({"datasets": list(datasets), **values}).plan().runs()


def own(tmp_path: Path, text: str) -> Recipe:
    (tmp_path / "own.yaml").write_text(text)
    return read_recipe(str(tmp_path / "own.yaml"))


@pytest.mark.parametrize("name", ["base-to-novel", "cross-dataset", "domain"])
def test_the_papers_tables_have_the_papers_settings(name: str, tmp_path: Path) -> None:
    runs = runs_of(name)
    learners = FIVE if name == "base-to-novel" else ("cocoop", "coop", "maple")
    assert {run.learner for run in runs} - {"zero-shot"} == set(learners)
    trained = [run for run in runs if run.learner != "zero-shot"]
    assert {run.arm for run in trained} == {"plain", "words"}
    datasets = paper.ELEVEN if name == "base-to-novel" else (paper.SOURCE,)
    assert len(trained) == len(datasets) * len(learners) * 2 * 3
    accuracy = {"base": 0.5, "novel": 0.5, "imagenet": 0.5}
    folder = write_records(tmp_path, *(record_of(run, accuracy) for run in runs))
    for result in read_records([folder])[0]:
        assert setting_differences(result) == [], result.id


def test_the_penalty_is_none_or_the_papers_for_each_dataset() -> None:
    weights: dict[str, list[float]] = {}
    for run in runs_of("penalty", seeds=1):
        weights.setdefault(run.dataset, []).append(run.settings["lambda_"])
    assert weights == {name: [0, weight] for name, weight in paper.LAMBDA.items()}


def test_the_whole_paper_is_its_tables_and_ablations() -> None:
    found = read_recipes(["paper", "few-shot"])
    tables, ablations = ["base-to-novel", "cross-dataset", "domain"], ["penalty", "k"]
    names = [recipe.name for recipe in found]
    assert names == [*tables, *ablations, "interval", "template", "few-shot"]
    assert set(names) < set(recipe_names())


def test_a_data_set_has_its_own_settings(tmp_path: Path) -> None:
    runs = own(tmp_path, OWN).plan().runs()
    assert [(run.dataset, run.words, run.settings.get("lambda_")) for run in runs] == [
        ("eurosat", 0, None),
        ("eurosat", 2, 0.3),
        ("oxford_pets", 3, 0.2),
    ]
    assert runs[2].settings["epochs"] == 40


def test_the_command_line_wins_over_all_of_a_recipe(tmp_path: Path) -> None:
    given = {"words": "1", "lambda_": 0.5, "datasets": "oxford_pets"}
    (run,) = own(tmp_path, OWN).override(given).plan().runs()
    assert (run.words, run.settings["lambda_"], run.settings["epochs"]) == (1, 0.5, 40)
    assert {run.settings["interval"] for run in runs_of("interval", interval=5)} == {5}


def test_a_list_of_given_words_names_each_dataset(tmp_path: Path) -> None:
    recipe = Recipe(values={"protocol": "base-to-novel", "datasets": "dtd,eurosat", "seeds": "1"})
    recipe = recipe.override({"arms": "given"})
    path = tmp_path / "given.yaml"
    path.write_text("dtd: Color, playfulness\neurosat: [habitat]\n")
    runs = recipe.with_given(path).plan().runs()
    assert [(run.dataset, run.words, run.config.words_given) for run in runs] == [
        ("dtd", 2, "color, playfulness"),
        ("eurosat", 1, "habitat"),
    ]
    path.write_text("dtd: color\n")
    with pytest.raises(IplError, match="no words for eurosat"):
        recipe.with_given(path).plan().runs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour: red", "'colour' is not a setting"),
        ("per_dataset: {dtd: [1]}", "per_dataset is"),
        ("vary: {words: [1], lr: [1]}", "vary must have one setting"),
        ("vary: {lr: [0.1, fast]}", "lr is 'fast'"),
        ("recipes: paper", "recipes must be a list"),
        ("", "is None"),
        ("words: yes", "words is True"),
        ("seeds: [[1]]", "seeds is"),
        ("!!python/object/apply:os.getcwd []", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str, tmp_path: Path) -> None:
    plan = "protocol: base-to-novel\ndatasets: dtd\n" if text and "!!" not in text else ""
    with pytest.raises(IplError, match=message):
        own(tmp_path, plan + text).plan().runs()
