"""Recipes: those of the package are the paper's rows; a user's own are checked word by word."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.bench.ablation import ABLATIONS
from ipl.bench.arms import ARMS
from ipl.bench.planned_runs import plan_runs
from ipl.bench.recipe import BenchRecipe, parse_recipe, read_recipe, recipe_names, recipe_text
from ipl.bench.records import read_records
from ipl.bench.run import Run
from ipl.bench.tables import paper
from ipl.bench.tables.paper_comparison import setting_differences
from ipl.support.errors import ConfigError
from tests.helpers.records import record_of, write_records

FIVE = ("cocoop", "coop", "kgcoop", "maple", "promptsrc")
OWN = """
protocol: base-to-novel
datasets: [eurosat, oxford_pets]
learners: coop
arms: words
words: [0, 2]
seeds: 1
lambda: 0.3
per_dataset:
  oxford_pets: {words: 3, lambda: 0.2, epochs: 40}
"""


def rows() -> list[str]:
    return [name for name in recipe_names() if not name.startswith("ablations/")]


def planned(name: str, tmp_path: Path) -> tuple[Run, ...]:
    return plan_runs(read_recipe(name), tmp_path, tmp_path / "out").runs


def test_the_package_has_every_row_of_the_paper() -> None:
    names = set(recipe_names())
    for learner in FIVE:
        assert {f"base-to-novel/{learner}", f"base-to-novel/{learner}-ipl"} <= names
    for learner in ("coop", "cocoop", "maple"):
        assert f"base-to-novel/{learner}-atprompt" in names
        for protocol in ("cross-dataset", "domain"):
            assert {f"{protocol}/{learner}", f"{protocol}/{learner}-ipl"} <= names
    assert {f"ablations/{name}" for name in ABLATIONS} <= names


@pytest.mark.parametrize("name", rows())
def test_a_row_has_the_papers_settings(name: str, tmp_path: Path) -> None:
    runs = planned(name, tmp_path)
    protocol, _, learner = name.partition("/")
    assert {run.protocol for run in runs} == {protocol}
    assert {run.learner for run in runs} == {learner.partition("-")[0]} or learner == "zero-shot"
    arm = {"-ipl": "words", "-atprompt": "given"}.get(learner[learner.rfind("-") :], "plain")
    assert {run.arm for run in runs} == {"zero-shot" if learner == "zero-shot" else arm}
    assert {run.words != 0 for run in runs} == {arm != "plain" and learner != "zero-shot"}
    if learner != "zero-shot":
        assert {run.seed for run in runs} == set(paper.SEEDS)
    if protocol == "base-to-novel":
        assert tuple(dict.fromkeys(run.dataset for run in runs)) == paper.ELEVEN
        assert len(runs) == (11 if learner == "zero-shot" else 33)
    else:
        targets = paper.TARGETS if protocol == "cross-dataset" else paper.VARIANTS
        assert {(run.dataset, run.targets) for run in runs} == {("imagenet", targets)}
    accuracy = {"base": 0.5, "novel": 0.5, "imagenet": 0.5}
    folder = write_records(tmp_path, *(record_of(run, accuracy) for run in runs))
    for result in read_records([folder])[0]:
        if arm != "given":  # the paper has no such row
            assert setting_differences(result) == [], result.id


def test_the_number_of_words_is_the_papers(tmp_path: Path) -> None:
    runs = planned("base-to-novel/maple-ipl", tmp_path)
    assert {run.dataset: run.words for run in runs} == paper.WORDS
    assert {run.dataset: run.settings["lambda_"] for run in runs} == paper.LAMBDA


@pytest.mark.parametrize(
    ("name", "setting", "values"),
    [
        ("penalty", "lambda_", [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        ("interval", "interval", list(paper.INTERVALS)),
        ("template", "template", list(paper.templates())),
    ],
)
def test_an_ablation_varies_one_setting(
    name: str, setting: str, values: list[object], tmp_path: Path
) -> None:
    found = plan_runs(read_recipe(f"ablations/{name}"), tmp_path, tmp_path)
    assert [level.value for level, _ in found.levels] == values
    first = found.levels[0][1]
    for level, runs in found.levels:
        assert len(runs) == 33 * len({run.learner for run in runs})
        for run, other in zip(runs, first, strict=True):
            assert run.settings[setting] == level.value
            assert {**run.settings, setting: 0} == {**other.settings, setting: 0}


def test_the_ablation_of_arms_has_each_arm_on_its_own(tmp_path: Path) -> None:
    found = plan_runs(read_recipe("ablations/arms"), tmp_path, tmp_path)
    once, each = 33, 33 * len(FIVE)  # datasets and seeds, times learners
    counts = {"zero-shot": 11, "linear-probe": once, "words-only": once, "random": 3 * each}
    for level, runs in found.levels:
        assert {run.arm for run in runs} == {level.value}
        assert len(runs) == counts.get(level.value, each)
        if level.value in ("words-only", "empty", "random", "words"):
            assert {run.dataset: run.words for run in runs} == paper.WORDS
    assert [level.value for level, _ in found.levels] == [arm for arm in ARMS if arm != "given"]


def test_levels_of_k_and_of_the_pool(tmp_path: Path) -> None:
    found = plan_runs(read_recipe("ablations/k"), tmp_path, tmp_path)
    assert [{run.words for run in runs} for _, runs in found.levels] == [{k} for k in range(1, 7)]
    pools = plan_runs(read_recipe("ablations/pool"), tmp_path, tmp_path)
    drawn = [runs[0].settings["pool"] for _, runs in pools.levels]
    assert [pool["no_names"] for pool in drawn] == [False, True, False, False]
    words = (tmp_path / "pools" / "random-1000.txt").read_text().split()
    assert len(words) == len(set(words)) == 1000
    assert len({pool["sha256"] for pool in drawn}) == 3  # without names it is the bundled one
    again = plan_runs(read_recipe("ablations/pool"), tmp_path, tmp_path / "elsewhere")
    assert [run.id for run in again.runs] == [run.id for run in pools.runs]


def test_a_data_set_has_its_own_settings(tmp_path: Path) -> None:
    runs = plan_runs(parse_recipe(OWN, "Mine"), tmp_path, tmp_path).runs
    assert [(run.dataset, run.words, run.settings.get("lambda_")) for run in runs] == [
        ("eurosat", 0, None),
        ("eurosat", 2, 0.3),
        ("oxford_pets", 3, 0.2),
    ]
    assert runs[2].settings["epochs"] == 40


def test_the_command_line_wins_over_all_of_a_recipe(tmp_path: Path) -> None:
    recipe = parse_recipe(OWN, "Mine").override(
        {"arms": "words", "words": "1", "lambda_": 0.5, "datasets": "dtd"}
    )
    (run,) = plan_runs(recipe, tmp_path, tmp_path).runs
    assert (run.dataset, run.words, run.settings["lambda_"]) == ("dtd", 1, 0.5)
    varying = read_recipe("ablations/interval").override({"interval": 5})
    assert (varying.vary, varying.settings["interval"]) == (None, 5)


def test_words_for_arms_that_have_none_are_refused() -> None:
    settings = {"protocol": "base-to-novel", "datasets": "eurosat", "words": "2"}
    with pytest.raises(ConfigError, match="Mine: words is 2"):
        BenchRecipe("Mine", settings={**settings, "arms": "plain,given"}).plan()
    assert BenchRecipe(settings={**settings, "arms": "plain,empty"}).plan().words == (2,)
    assert BenchRecipe(settings={**settings, "arms": "plain", "words": 0}).plan().words == (0,)


def test_a_list_of_given_words_names_each_dataset(tmp_path: Path) -> None:
    settings = {"protocol": "base-to-novel", "datasets": "dtd,eurosat", "seeds": "1"}
    recipe = BenchRecipe(settings={**settings, "arms": "given"})
    path = tmp_path / "given.yaml"
    path.write_text("dtd: Color, playfulness\neurosat: [habitat]\n")
    runs = plan_runs(recipe.with_given(path), tmp_path, tmp_path / "out").runs
    assert [(run.dataset, run.words, run.config.words_given) for run in runs] == [
        ("dtd", 2, "color, playfulness"),
        ("eurosat", 1, "habitat"),
    ]
    path.write_text("dtd: color\n")
    with pytest.raises(ConfigError, match="The arm given has no words for eurosat"):
        plan_runs(recipe.with_given(path), tmp_path, tmp_path / "out")
    path.write_text("- color\n")
    with pytest.raises(ConfigError, match="must have a line `dataset: word, word`"):
        recipe.with_given(path)
    with pytest.raises(ConfigError, match="the arm given is not run"):
        BenchRecipe(settings=settings).with_given(path)


def test_a_number_may_be_written_as_people_do() -> None:
    recipe = parse_recipe("protocol: base-to-novel\ndatasets: dtd\nlr: 1e-3\n", "Mine")
    assert recipe.plan().config.lr == 0.001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour: red", "Mine: 'colour' is not a setting; it must be one of title, .*lambda"),
        ("per_dataset: {dtd: {seeds: 1}}", "per_dataset of dtd: 'seeds' is not a setting"),
        ("vary: {words: [1], lr: [1]}", "vary has 2 settings; it must have one"),
        ("", "Mine is empty"),
        ("words: 1\nshots: 2\nwords: 2", "not valid YAML in line 3: the key 'words'"),
        ("datasets: [dtd]\nper_dataset: {dtdd: {m: 1}}", "per_dataset has 'dtdd'"),
        ("shots:", "Mine: shots has no value"),
        ("words: yes", "Mine: words is true"),
        ("!!python/object/apply:os.getcwd []", "Mine is not valid YAML"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_recipe(text, "Mine")


@pytest.mark.parametrize(
    "text",
    [
        "datasets: [photos/birds, my.csv]\nper_dataset: {birds: {m: 1}, my: {m: 2}, dtd: {m: 3}}",
        "per_dataset: {birds: {m: 1}}",  # for --datasets photos/birds
        "epochs: ~\nsource: ~\nno_names: true\nper_dataset: ~\nvary: ~",
    ],
)
def test_what_is_not_wrong(text: str) -> None:
    parse_recipe(text, "Mine")


def test_recipes_are_found_by_name_or_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(recipe_text("domain/coop"))
    assert read_recipe(str(path)).settings == read_recipe("domain/coop").settings
    with pytest.raises(ConfigError, match="no recipe 'domain/cop'.* Did you mean 'domain/coop'"):
        read_recipe("domain/cop")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_recipe(str(path))


def test_levels_that_cannot_be(tmp_path: Path) -> None:
    for value in ("random-x", "random-99999"):
        with pytest.raises(ConfigError, match=f"pool is '{value}'"):
            plan_runs(read_recipe("ablations/pool").varying("pool", [value]), tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="words has the value 2 twice"):
        plan_runs(read_recipe("ablations/k").varying("words", [2, 2]), tmp_path, tmp_path)


def test_aliases_are_refused_before_they_are_followed() -> None:
    with pytest.raises(ConfigError, match=r"^The recipe x has an alias \(\*name\)"):
        parse_recipe("datasets: &a [dtd]\nseeds: *a", "The recipe x")
    with pytest.raises(ConfigError, match="has more than 1,000,000 characters"):
        parse_recipe("title: " + "x" * 1_000_000, "The recipe x")


def test_values_deep_inside_of_each_other_are_refused_at_once() -> None:
    """The parser would take minutes for this."""
    with pytest.raises(ConfigError, match=r"^The recipe x has values .* more than 20 levels deep"):
        parse_recipe("title: " + "[" * 100_000, "The recipe x")
