"""FitConfig: what it refuses and how it says so, and what is derived from it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from ipl.classifier import PromptClassifier
from ipl.cli.config_options import config_options
from ipl.config import FitConfig, setting_names
from ipl.select import select_words
from ipl.support.errors import ConfigError
from ipl.words.gain import Objective


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("views", {"views": "frsh"}),
        ("views", {"views": -1}),
        ("words", {"words": True}),
        ("words", {"words": 1.5}),
        ("lr", {"lr": 0}),
        ("lr", {"lr": float("nan")}),
        ("lr", {"lr": 1.7e308}),
        ("lambda", {"lambda_": float("inf")}),
        ("preset", {"preset": "mine"}),
        ("cache", {"cache": "yes"}),
        ("backbone", {"backbone": None}),
        ("seed", {"seed": 2**32}),
        ("shots", {"shots": "9" * 20}),
        ("epochs", {"epochs": 10**400}),
        ("words", {"words": [["x"] * 10**5] * 10**5}),
        ("class_template", {"class_template": "x"}),
        ("template", {"template": "x"}),
        ("learner", {"learner": "cop"}),
        ("depth", {"depth": 2}),  # coop has vectors only in the first layer
        ("words (k = 3) times interval", {"words": 3, "epochs": 10, "interval": 10}),
        ("words (k = 1) times interval", {"words": "auto", "epochs": 5, "interval": 10}),
        ("words_given", {"words_given": "sand", "words": 2}),
        ("words_given", {"words_given": "sand,"}),
        ("words_given", {"words_given": "red sand"}),
        ("words_given", {"words_given": "{cls}"}),
        ("empty_slots", {"empty_slots": True, "words": 0}),
        ("random_words", {"random_words": 1, "words": "paper"}),
        ("random_words", {"random_words": 1, "words_given": "a"}),
    ],
)
def test_what_is_refused(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        FitConfig(**values)
    assert field in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        ({"words": 3, "epochs": 10}, 3),
        ({"words": 3, "epochs": 200}, 10),
        ({"words": 0, "epochs": 5}, 10),
        ({"words": "auto", "epochs": 5}, 5),
        ({"words": 3, "epochs": 10, "interval": 2}, 2),
    ],
)
def test_few_epochs_shorten_the_interval(values: dict[str, Any], interval: int) -> None:
    assert FitConfig(**values).hyperparameters.interval == interval


# -- what stands in the slots ---------------------------------------------------------------------


def test_given_words_set_the_number_of_words() -> None:
    config = FitConfig(words_given="Sand,  playfulness")
    assert (config.words_given, config.words, config.arm) == ("sand, playfulness", 2, "given")
    assert not config.searches
    assert FitConfig(words_given="sand, playfulness", words=2) == config
    assert FitConfig.from_dict(config.as_dict()) == config
    assert config.command("x") == "ipl fit x --words 2 --words-given 'sand, playfulness'"


def test_arms_of_a_config() -> None:
    assert (FitConfig().arm, FitConfig(words="auto").arm) == ("words", "words")
    assert (FitConfig(words=0).arm, FitConfig(words=0).searches) == ("plain", False)
    empty = FitConfig(words=2, empty_slots=True)
    assert (empty.arm, empty.searches) == ("empty", False)
    assert empty.command("x") == "ipl fit x --words 2 --empty-slots"
    drawn = FitConfig(random_words=2)
    assert (drawn.arm, drawn.searches) == ("random", True)
    assert drawn.command("x") == "ipl fit x --random-words 2"
    for config in (empty, drawn, FitConfig(words_given="sand")):
        assert config.without_words() == FitConfig(words=0)
        assert config.about_words not in (FitConfig().about_words, FitConfig(words=0).about_words)


def test_plain_values_become_a_config() -> None:
    with pytest.raises(ConfigError, match="'epoch' is not a setting. Did you mean 'epochs'"):
        FitConfig.from_dict({"epoch": 3})
    config = FitConfig.from_dict({"words": "2", "views": "0", "lr": "1e-3", "lambda": "0.5"})
    assert (config.words, config.views, config.lr, config.lambda_) == (2, 0, 1e-3, 0.5)
    assert FitConfig.from_dict({"words": "auto", "views": "fresh"}).words == "auto"
    assert FitConfig(words=np.int64(2), lambda_=np.float32(0.5)) == FitConfig(words=2, lambda_=0.5)


def test_the_weight_of_redundancy_goes_with_the_utility() -> None:
    assert FitConfig().objective == Objective(0.0, utility="calibrated")
    assert FitConfig(utility="paper").objective == Objective(0.1)
    assert FitConfig(lambda_=0.3).objective.lambda_ == 0.3


def test_hyperparameters_are_the_published_ones_unless_others_are_given() -> None:
    assert FitConfig(words=0, learner="coop").hyperparameters.epochs == 200
    cross = FitConfig(words=0, learner="coop", protocol="cross-dataset")
    assert cross.hyperparameters.epochs == 50
    given = FitConfig(epochs=30, m=7).hyperparameters
    assert (given.epochs, given.m, given.batch) == (30, 7, 128)


def test_the_command_names_what_differs_from_the_defaults() -> None:
    assert FitConfig().command("my images") == "ipl fit 'my images'"
    config = FitConfig(lambda_=0.2, cache=False, pool_part="visible", views="fresh")
    assert config.command("x") == "ipl fit x --lambda 0.2 --views fresh --pool visible"


def test_classifier_and_select_words_take_every_field() -> None:
    parameters = inspect.signature(PromptClassifier).parameters
    assert set(setting_names()) <= set(parameters)
    assert parameters["epochs"].default is None
    assert parameters["lambda_"].default is None
    lines = str(inspect.getdoc(PromptClassifier)).splitlines()
    for name in setting_names():
        assert any(line.startswith(f"{name} : ") for line in lines), name
    chosen = inspect.signature(select_words).parameters
    assert {"lambda_", "shots", "device"} <= set(chosen)
    assert not {"epochs", "views", "learner"} & set(chosen)


@pytest.mark.parametrize("unset", [False, True])
def test_options_of_a_command(unset: bool) -> None:
    app, seen = typer.Typer(), list[dict[str, Any]]()

    @app.command()
    @config_options(unset=unset)
    def command(settings: dict[str, Any], more: int = typer.Option(1)) -> None:
        assert more == 1
        seen.append(settings)

    runner = CliRunner()
    assert runner.invoke(app, []).exit_code == 0
    assert runner.invoke(app, ["--no-cache", "--lambda", "0.3", "--words", "auto"]).exit_code == 0
    default, given = seen
    assert FitConfig.from_dict(default) == FitConfig()
    assert (default == {}) == unset
    assert (given["cache"], given["lambda_"], given["words"]) == (False, 0.3, "auto")
