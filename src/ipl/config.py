"""FitConfig: the one description of a fit.

Every option of a fit is declared here once. The parameters of `PromptClassifier` and
`select_words`, the options of `ipl fit`, `ipl select`, `ipl bench` and `ipl ablate`, the settings
of recipes and records, the `config` block of a saved run and the command that repeats it are all
derived from these fields.
"""

from __future__ import annotations

import shlex
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

from ipl.config_fields import (
    DATA,
    MACHINE,
    MODEL,
    OPTION,
    TRAINING,
    WORDS,
    Option,
    Setting,
    checked_value,
    document_settings,
    read_setting,
)
from ipl.datasets.benchmarks import PHOTO
from ipl.datasets.fewshot import check_draw
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import check_class_template
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, closest
from ipl.words.template import DEFAULT_TEMPLATE, Template

AUTO, PAPER = "auto", "paper"  # numbers of words that a fit finds
MOST_WORDS = 6  # that it tries
FRESH = "fresh"
# What stands in the slots of the words: there are none, they stay empty, words drawn at random,
# words that the search chose, words that a person gave.
PLAIN, EMPTY, RANDOM, CHOSEN, GIVEN = "plain", "empty", "random", "words", "given"
ABOUT_WORDS = {
    PLAIN: "This prompt has no words: it is the plain learner.",
    EMPTY: "This prompt has no words: it was trained with empty slots in their places.",
    RANDOM: "The words were drawn at random, each about as frequent as one that the search chose.",
    CHOSEN: "The words were chosen by a search.",
    GIVEN: "The words were given by a person; no search chose them.",
}


def _option(default: Any, help: str, part: str, flag: str | None, **more: Any) -> Any:
    return field(default=default, metadata={OPTION: Option(help, part, flag, **more)})


@dataclass(frozen=True)
class FitConfig:
    """The settings of a fit, in plain values, checked when it is built.

    A value of None stands for the learner's published value, which `hyperparameters` fills in.
    `ipl fit --help` lists the same settings.

    Parameters
    ----------
    **settings

    Raises
    ------
    ConfigError
        If a value is not allowed, or values contradict each other; the message names the field, the
        value and what is allowed.
    """

    backbone: str = _option(
        "pocket",
        "pocket (bundled), a Hugging Face name, a model folder, or open_clip:MODEL/WEIGHTS (see: "
        "ipl backbones).",
        MODEL,
        "--backbone",
    )
    learner: str = _option(
        "coop",
        "The prompt learner: coop, cocoop, kgcoop, maple, promptsrc, or one of your own.",
        TRAINING,
        "--learner",
        bench="list",
    )
    words: int | str = _option(
        3,
        "Words in the prompt, k: a number (0: the plain learner); auto stops before the first word "
        "whose gain may be chance; paper takes the number from 1 to 6 with the best training "
        "accuracy.",
        WORDS,
        "--words",
        least=0,
        most=1000,
        keywords=(AUTO, PAPER),
        bench="list",
    )
    shots: int = _option(16, "Training images per class.", DATA, "--shots", least=1, bench="list")
    held_out: str = _option(
        "test",
        "The part of the data that is held out and scored, test or val; the other is not used.",
        TRAINING,
        "--held-out",
        choices=("test", "val"),
        bench="",
    )
    epochs: int | None = _option(
        None, "Epochs in all, T.", TRAINING, "--epochs", least=1, most=10**6
    )
    interval: int | None = _option(
        None,
        "Epochs after each word, t.",
        TRAINING,
        "--interval",
        least=1,
        most=10**6,
        concerns_words=True,
    )
    batch: int | None = _option(None, "Images in a step.", TRAINING, "--batch", least=1)
    lr: float | None = _option(None, "Learning rate.", TRAINING, "--lr", above=0)
    m: int | None = _option(None, "Soft vectors in a group.", TRAINING, "--m", least=1, most=1000)
    depth: int | None = _option(
        None, "Layers that get vectors of their own.", TRAINING, "--depth", least=1
    )
    init: str = _option(
        "published",
        "How the soft vectors start: photo (the group before the class name from the last words of "
        '"a photo of a", the others from noise), noise, or published (as the learner does).',
        TRAINING,
        "--init",
        choices=("published", "photo", "noise"),
    )
    class_template: str = _option(
        PHOTO,
        "A hand-made prompt, for learners that stay near one (kgcoop).",
        TRAINING,
        "--class-template",
        bench="",
    )
    lambda_: float = _option(
        0.1, "Weight of redundancy between words.", WORDS, "--lambda", least=0, concerns_words=True
    )
    preset: str = _option(
        "paper",
        "Redundancy: paper (sum of cosines) or reference (their mean).",
        WORDS,
        "--preset",
        choices=("paper", "reference"),
        concerns_words=True,
    )
    word_embedding: str = _option(
        "text",
        "What redundancy compares: text (features) or token (embeddings).",
        WORDS,
        "--word-embedding",
        choices=("text", "token"),
        concerns_words=True,
    )
    template: str = _option(
        DEFAULT_TEMPLATE,
        "The sentence that scores words.",
        WORDS,
        "--template",
        concerns_words=True,
    )
    search: str = _option(
        "exact",
        "exact (every word in half precision, the best again in fp32) or exhaustive (every word "
        "in fp32).",
        WORDS,
        "--search",
        choices=("exact", "exhaustive"),
        concerns_words=True,
    )
    memory: float = _option(
        2.0, "GiB of working memory for the search.", MACHINE, "--memory", above=0, bench=""
    )
    placeholder: str = _option(
        "token",
        'An empty slot holds token ("0") or zero.',
        TRAINING,
        "--placeholder",
        choices=("token", "zero"),
        concerns_words=True,
    )
    words_given: str | None = _option(
        None,
        "Your own words for the prompt, with commas between them, in place of a search.",
        TRAINING,
        "--words-given",
        concerns_words=True,
        bench="",
    )
    empty_slots: bool = _option(
        False,
        "Leave the slots of the words empty: the same layout and training without words.",
        TRAINING,
        "--empty-slots",
        concerns_words=True,
        bench="",
    )
    random_words: int | None = _option(
        None,
        "Fill the slots with random words, each about as frequent as the one that the search "
        "would choose; the number is that of the draw (1, 2, ...).",
        TRAINING,
        "--random-words",
        least=1,
        concerns_words=True,
        bench="",
    )
    views: int | str = _option(
        8,
        "Random crops per training image: a number, 0 (centre crop), or fresh.",
        TRAINING,
        "--views",
        least=0,
        most=10_000,
        keywords=(FRESH,),
    )
    words_file: str | None = _option(
        None, "Choose from your own list of words.", WORDS, "--words-file", concerns_words=True
    )
    no_names: bool = _option(
        False,
        "Leave out words of the pool that are nothing but proper names.",
        WORDS,
        "--no-names",
        concerns_words=True,
    )
    seed: int = _option(
        1,
        "Draws the shots and starts the vectors.",
        DATA,
        "--seed",
        least=0,
        most=2**32 - 1,
        bench="list",
    )
    device: str = _option("auto", "auto, cpu, cuda, cuda:1, mps.", MACHINE, "--device", bench="")
    precision: str = _option(
        "fp32",
        "fp32, bf16 or fp16; prompts stay fp32.",
        MODEL,
        "--precision",
        choices=("fp32", "bf16", "fp16"),
    )
    cache: bool = _option(
        True,
        "Whether what was computed is kept on disk and used again (see: ipl cache).",
        MACHINE,
        "--no-cache",
        flag_help="Compute everything anew and keep nothing (see: ipl cache).",
        bench="",
    )
    strict: bool = _option(
        False, "Fail on a file that is not an image.", MACHINE, "--strict", bench=""
    )
    protocol: str = _option(
        "base-to-novel",
        "The protocol whose published numbers the learner takes.",
        TRAINING,
        None,
        choices=("base-to-novel", "cross-dataset"),
        bench="",
    )

    def __post_init__(self) -> None:
        for setting in settings():
            value = checked_value(setting, getattr(self, setting.name))
            object.__setattr__(self, setting.name, value)
        self._check_slots()
        self._check_together()

    def _check_slots(self) -> None:
        """Raises ConfigError unless it is clear what stands in the slots of the words."""
        options = {
            "words_given": self.words_given is not None,
            "empty_slots": self.empty_slots,
            "random_words": self.random_words is not None,
        }
        used = [name for name, is_used in options.items() if is_used]
        if len(used) > 1:
            raise ConfigError(f"{used[0]} and {used[1]} contradict each other; use one of them.")
        if self.words_given is not None:
            words = given_words(self.words_given)
            if self.words not in (len(words), FitConfig.words):
                raise ConfigError(
                    f"words is {self.words}, but words_given has {len(words)}; give one of the two."
                )
            object.__setattr__(self, "words_given", ", ".join(words))
            object.__setattr__(self, "words", len(words))
        elif used and self.words in (0, PAPER):
            raise ConfigError(f"words is {self.words}; {used[0]} needs a number of words above 0.")

    def _check_together(self) -> None:
        """Raises ConfigError for values that are allowed each on its own, but not together."""
        check_draw(self.shots, self.seed)
        check_class_template(self.class_template)
        Template(self.template)
        kind = learner_class(self.learner)
        if (self.depth or 1) > 1 and not kind.deep_prompts:
            raise ConfigError(
                f"depth is {self.depth}; {kind.name} has vectors only in the first layer."
            )
        self.hyperparameters.word_epochs(1 if isinstance(self.words, str) else self.words)

    @property
    def arm(self) -> str:
        """Returns what stands in the slots: plain (no slots), empty, random, words or given."""
        if not self.words:
            return PLAIN
        if self.words_given is not None:
            return GIVEN
        return EMPTY if self.empty_slots else CHOSEN if self.random_words is None else RANDOM

    @property
    def about_words(self) -> str:
        """Returns a sentence on where the words of the prompt come from."""
        return ABOUT_WORDS[self.arm]

    @property
    def searches(self) -> bool:
        """Returns whether the result depends on a search for words."""
        return self.arm in (CHOSEN, RANDOM) or (self.arm == EMPTY and self.words == AUTO)

    @cached_property
    def hyperparameters(self) -> Hyperparameters:
        """Returns the hyperparameters of the fit: those given, else the learner's.

        If only `epochs` is given, the interval is shortened so that all words can enter.
        """
        words = self.words if isinstance(self.words, int) else 1
        published = learner_class(self.learner).hyperparameters(words, self.protocol)
        given = {name: getattr(self, name) for name in hyperparameter_names()}
        if words and self.epochs is not None and self.interval is None:
            given["interval"] = max(1, min(published.interval, self.epochs // words))
        return published.override(**given)

    def without_words(self) -> FitConfig:
        """Returns the config of the same fit without words, and without settings about them."""
        about_words = {s.name: s.default for s in settings() if s.option.concerns_words}
        return replace(self, words=0, **about_words)

    # -- plain values and back --------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Returns the settings as plain values for JSON.

        Returns
        -------
        dict
            Values by field name.
        """
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FitConfig:
        """Returns the config of plain values, as a file or a command line gives them.

        Parameters
        ----------
        values : mapping
            Values by field name; `lambda` may stand for `lambda_`, and a text that is a number for
            the number. Fields that are left out keep their default.

        Returns
        -------
        FitConfig
            The config.

        Raises
        ------
        ConfigError
            If a name is unknown, or a value is not allowed.
        """
        settings = {}
        for key, value in values.items():
            name = field_name(str(key))
            if name not in names():
                raise ConfigError(f"{key!r} is not a setting.{closest(str(key), names())}")
            settings[name] = value
        return cls(**settings)

    def command(self, data: str) -> str:
        """Returns the command line that repeats this fit.

        Parameters
        ----------
        data : str
            The dataset.

        Returns
        -------
        str
            The command, with every setting that differs from its default and affects the result.
        """
        parts = ["ipl", "fit", data]
        for setting in settings():
            value = getattr(self, setting.name)
            if setting.flag and setting.changes_result and value != setting.default:
                parts += [setting.flag] if isinstance(value, bool) else [setting.flag, str(value)]
        return shlex.join(parts)


@cache
def settings(*parts: str) -> tuple[Setting, ...]:
    """Returns the fields of FitConfig in order: all, or those about these parts of a fit."""
    hints = typing.get_type_hints(FitConfig)
    every = (read_setting(each, hints[each.name]) for each in fields(FitConfig))
    return tuple(setting for setting in every if not parts or setting.option.part in parts)


@cache
def names() -> tuple[str, ...]:
    """Returns the names of all fields."""
    return tuple(setting.name for setting in settings())


@cache
def hyperparameter_names() -> tuple[str, ...]:
    """Returns the fields whose default is the learner's published value."""
    published = {entry.name for entry in fields(Hyperparameters)}
    return tuple(name for name in names() if name in published)


def given_words(text: str) -> tuple[str, ...]:
    """Returns the words in a text with commas; raises ConfigError unless each is one word."""
    words = tuple(word.strip().lower() for word in text.split(","))
    for word in words:
        if not word or any(character.isspace() or character in "*[]{}" for character in word):
            raise ConfigError(
                f"words_given is {text!r}; it must be single words with commas between them."
            )
    return words


def field_name(key: str) -> str:
    """Returns the name of the field for a key of a file: `lambda` stands for `lambda_`."""
    return f"{key}_" if f"{key}_" in names() else key


document_settings(FitConfig, settings())
