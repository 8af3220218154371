"""FitConfig: the one description of a fit.

Every option of a fit is declared here once, with its default, its text for `--help` and its allowed
values. The parameters of `PromptClassifier` and `select_words`, the options of `ipl fit`,
`ipl select` and `ipl bench`, the settings of recipes and records, the `config` block of a saved run
and the command that repeats it are all derived from these fields.
"""

from __future__ import annotations

import inspect
import math
import operator
import os
import shlex
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, TypeVar

from ipl.datasets.benchmarks import PHOTO
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import check_class_template
from ipl.learners.registry import learner_class
from ipl.prompts.bound_prompts import PLACEHOLDERS
from ipl.support.errors import ConfigError, brief, closest
from ipl.words.gain import UTILITIES, Objective
from ipl.words.pool import PARTS
from ipl.words.template import DEFAULT_TEMPLATE, Template

T = TypeVar("T", bound=Callable[..., Any])

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
# What a field is about: which command takes it, and what depends on it. MACHINE decides where and
# how fast something is computed, never the result.
DATA, MODEL, WORDS, TRAINING, MACHINE = ("data", "model", "words", "training", "machine")
OF_SLOTS = ("interval", "placeholder", "words_given", "empty_slots", "random_words")
# The groups of `ipl fit --help`; what is of no part's group is rarely used.
PROMPT_GROUP, RARE = "Prompt", "Rarely used"
GROUPS = {DATA: "Data", MODEL: PROMPT_GROUP, TRAINING: "Training", WORDS: "Search for words"}


@dataclass(frozen=True)
class Setting:
    """A field of FitConfig: its type, its default, and everything else about it."""

    name: str
    kinds: tuple[type, ...]  # the types of its value
    optional: bool  # whether it may be None: the learner's published value, or nothing
    default: Any
    help: str
    part: str  # DATA, MODEL, WORDS, TRAINING or MACHINE
    flag: str | None  # the option on the command line, if there is one
    unset: str  # what None stands for
    flag_help: str = ""  # for a flag that turns something off
    group: str = ""  # of `ipl fit --help`, where it does not follow from the part
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    keywords: tuple[str, ...] = ()  # texts that are allowed in place of a number

    @property
    def title(self) -> str:
        """The name as messages write it: `lambda` for `lambda_`."""
        return self.name.rstrip("_")

    @property
    def negated(self) -> bool:
        """Whether the flag turns off what is on by default."""
        return self.kinds == (bool,) and self.default is True

    @property
    def changes_result(self) -> bool:
        return self.part != MACHINE

    @property
    def concerns_words(self) -> bool:
        """Whether only prompts with words depend on it."""
        return (self.part == WORDS and self.name != "words") or self.name in OF_SLOTS

    @property
    def annotation(self) -> str:
        kinds = [kind.__name__ for kind in self.kinds]
        return " | ".join([*kinds, *(["None"] if self.optional else [])])

    @property
    def default_text(self) -> str:
        return self.unset if self.default is None else str(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values, to follow "it must be" in a message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if bool in self.kinds:
            return "true or false"
        if int not in self.kinds and float not in self.kinds:
            return "text"
        text = "a whole number" if int in self.kinds else "a number"
        most = None if self.most is None else f"{self.most:,}"
        if self.least is not None:
            text += f" from {self.least:g} to {most}" if most else f", {self.least:g} or more"
        return f"{text}, or {' or '.join(self.keywords)}" if self.keywords else text


def _option(default: Any, help: str, part: str, **more: Any) -> Any:
    return field(default=default, metadata={"help": help, "part": part, **more})


@dataclass(frozen=True)
class FitConfig:
    """The settings of a fit, in plain values, checked when it is built.

    A value of None stands for the learner's published value, which `hyperparameters` fills in;
    of `shots`, for all images.
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
        "ipl list backbones).",
        MODEL,
    )
    learner: str = _option(
        "kgcoop",
        "The prompt learner: coop, cocoop, kgcoop, maple, promptsrc, or one of your own.",
        TRAINING,
        group=PROMPT_GROUP,
    )
    words: int | str = _option(
        AUTO,
        "Words in the prompt, k: a number (0: the plain learner); auto stops before the first word "
        "that gains nothing on held-out images; paper takes the number from 1 to 6 with the best "
        "training accuracy.",
        WORDS,
        least=0,
        most=1000,
        keywords=(AUTO, PAPER),
        group=PROMPT_GROUP,
    )
    shots: int | None = _option(
        None,
        "Train on this many images of each class.",
        DATA,
        least=1,
        most=10**6,
        unset="all",
    )
    held_out: str = _option(
        "test",
        "The part of the data that is held out and scored, test or val; the other is not used.",
        TRAINING,
        choices=("test", "val"),
        group=RARE,
    )
    epochs: int | None = _option(None, "Epochs in all, T.", TRAINING, least=1, most=10**6)
    interval: int | None = _option(
        None, "Epochs after each word, t.", TRAINING, least=1, most=10**6
    )
    batch: int | None = _option(None, "Images in a step.", TRAINING, least=1, most=10**6)
    lr: float | None = _option(None, "Learning rate.", TRAINING, least=0, most=1000)
    m: int | None = _option(
        None, "Soft vectors in a group.", TRAINING, least=1, most=1000, group=RARE
    )
    depth: int | None = _option(
        None, "Layers that get vectors of their own.", TRAINING, least=1, most=1000, group=RARE
    )
    average_mean: float | None = _option(
        None,
        "The epoch around which prompts are averaged.",
        TRAINING,
        least=1,
        most=10**6,
        flag=None,
    )
    average_std: float | None = _option(
        None, "The width of that average, in epochs.", TRAINING, least=1e-3, most=10**6, flag=None
    )
    class_template: str = _option(
        PHOTO,
        "A hand-made prompt, for learners that stay near one (kgcoop).",
        TRAINING,
        group=RARE,
    )
    utility: str = _option(
        "calibrated",
        "What a word is worth: the fall of the cross-entropy at the best scale of each word "
        "(calibrated) or at CLIP's own (paper).",
        WORDS,
        choices=tuple(UTILITIES),
    )
    lambda_: float | None = _option(
        None,
        "Weight of redundancy between words.",
        WORDS,
        least=0,
        unset="0.1 with the paper's utility, else 0",
    )
    preset: str = _option(
        "paper",
        "Redundancy: paper (sum of cosines) or reference (their mean).",
        WORDS,
        choices=("paper", "reference"),
        group=RARE,
    )
    word_embedding: str = _option(
        "text",
        "What redundancy compares: text (features) or token (embeddings).",
        WORDS,
        choices=("text", "token"),
        group=RARE,
    )
    template: str = _option(DEFAULT_TEMPLATE, "The sentence that scores words.", WORDS, group=RARE)
    search: str = _option(
        "exact",
        "exact (every word in half precision, the best again in fp32) or exhaustive (every word "
        "in fp32).",
        WORDS,
        choices=("exact", "exhaustive"),
        group=RARE,
    )
    placeholder: str = _option(
        "token",
        'An empty slot holds token ("0") or zero.',
        TRAINING,
        choices=PLACEHOLDERS,
        group=RARE,
    )
    words_given: str | None = _option(
        None,
        "Your own words for the prompt, with commas between them, in place of a search.",
        TRAINING,
        group=PROMPT_GROUP,
    )
    empty_slots: bool = _option(
        False,
        "Leave the slots of the words empty: the same layout and training without words.",
        TRAINING,
        group=RARE,
    )
    random_words: int | None = _option(
        None,
        "Fill the slots with random words, each about as frequent as the one that the search "
        "would choose; the number is that of the draw (1, 2, ...).",
        TRAINING,
        least=1,
        most=10**6,
        group=RARE,
    )
    views: int | str = _option(
        8,
        "Random crops per training image: a number (fewer if there are more than 64 images of a "
        "class), 0 (centre crop), or fresh.",
        TRAINING,
        least=0,
        most=10_000,
        keywords=(FRESH,),
    )
    words_file: str | None = _option(None, "Choose from your own list of words.", WORDS)
    pool_part: str = _option(
        "all",
        "The words of the pool to choose from: all, no-names (none that are only proper names) or "
        "visible (things, substances, colours, shapes, animals, plants, places; no class names).",
        WORDS,
        choices=PARTS,
        flag="--pool",
    )
    seed: int = _option(1, "Draws the shots and starts the vectors.", DATA, least=0, most=2**32 - 1)
    head: bool = _option(
        True,
        "Whether a linear head is fitted beside the prompt, for the classes of the training.",
        TRAINING,
        flag_help="Fit no linear head for the classes of the training: classify with the prompt "
        "alone.",
    )
    device: str = _option("auto", "auto, cpu, cuda, cuda:1, mps.", MACHINE)
    precision: str = _option(
        "fp32",
        "fp32, bf16 or fp16; prompts stay fp32.",
        MODEL,
        choices=("fp32", "bf16", "fp16"),
        group=RARE,
    )
    cache: bool = _option(
        True,
        "Whether what was computed is kept on disk and used again (see: ipl list cache).",
        MACHINE,
        flag_help="Compute everything anew and keep nothing (see: ipl list cache).",
        group=RARE,
    )
    protocol: str = _option(
        "base-to-novel",
        "The protocol whose published numbers the learner takes.",
        TRAINING,
        choices=("base-to-novel", "cross-dataset"),
        flag=None,
    )

    def __post_init__(self) -> None:
        for setting in fit_settings():
            value = checked_value(setting, getattr(self, setting.name))
            object.__setattr__(self, setting.name, value)
        self._check_slots()
        self._check_together()

    def _check_slots(self) -> None:
        """What stands in the slots of the words must be clear."""
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
        """Values may be allowed each on its own, but not together."""
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
        """What stands in the slots: plain (no slots), empty, random, words or given."""
        if not self.words:
            return PLAIN
        if self.words_given is not None:
            return GIVEN
        return EMPTY if self.empty_slots else CHOSEN if self.random_words is None else RANDOM

    @property
    def about_words(self) -> str:
        return ABOUT_WORDS[self.arm]

    @property
    def searches(self) -> bool:
        """Whether the result depends on a search for words."""
        return self.arm in (CHOSEN, RANDOM) or (self.arm == EMPTY and self.words == AUTO)

    @property
    def objective(self) -> Objective:
        """What a search for words maximises."""
        weight = UTILITIES[self.utility] if self.lambda_ is None else self.lambda_
        return Objective(weight, self.preset, self.word_embedding, self.utility)

    @cached_property
    def hyperparameters(self) -> Hyperparameters:
        """The hyperparameters of the fit: those given, else the learner's.

        If only `epochs` is given, the interval is shortened so that all words can enter.
        """
        words = self.words if isinstance(self.words, int) else 1
        published = learner_class(self.learner).hyperparameters(words, self.protocol)
        given = {name: getattr(self, name) for name in hyperparameter_names()}
        if words and self.epochs is not None and self.interval is None:
            given["interval"] = max(1, min(published.interval, self.epochs // words))
        return published.override(**given)

    def without_words(self) -> FitConfig:
        """The same fit without words, and without settings about them."""
        about_words = {s.name: s.default for s in fit_settings() if s.concerns_words}
        return replace(self, words=0, **about_words)

    # -- plain values and back --------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values for JSON, by field name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FitConfig:
        """The config of plain values, as a file or a command line gives them.

        An option's name may stand for the field, as `lambda` for `lambda_`, and a text that is a
        number for the number.
        """
        settings = {}
        for key, value in values.items():
            name = field_name(str(key))
            if name not in setting_names():
                raise ConfigError(f"{key!r} is not a setting.{closest(str(key), setting_names())}")
            settings[name] = value
        return cls(**settings)

    def run_name(self, data: str) -> str:
        """What a fit on this dataset is called, with dashes for what no folder's name may have."""
        words = f"{self.words}w" if isinstance(self.words, int) else self.words
        arm = "" if self.arm in (PLAIN, CHOSEN) else f"-{self.arm}"
        name = f"{data}-{self.learner}-{words}{arm}-seed{self.seed}"
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[-100:].lstrip("-.")

    def command(self, data: str) -> str:
        """The command line that repeats this fit on a dataset."""
        parts = ["ipl", "fit", data]
        for setting in fit_settings():
            value = getattr(self, setting.name)
            if setting.flag and setting.changes_result and value != setting.default:
                parts += [setting.flag] if isinstance(value, bool) else [setting.flag, str(value)]
        return shlex.join(parts)


@cache
def fit_settings(*parts: str) -> tuple[Setting, ...]:
    """The fields of FitConfig in order: all, or those about these parts of a fit."""
    hints, every = typing.get_type_hints(FitConfig), list[Setting]()
    published = {entry.name for entry in fields(Hyperparameters)}
    for each in fields(FitConfig):
        hint = hints[each.name]
        kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        optional = types.NoneType in kinds
        kinds = tuple(kind for kind in kinds if kind is not types.NoneType)
        part, name = each.metadata["part"], each.name.rstrip("_").replace("_", "-")
        usual = {
            "flag": f"--no-{name}" if each.default is True else f"--{name}",
            "group": GROUPS.get(part, RARE),
            "unset": "the learner's" if each.name in published else "none",
        }
        more = {**usual, **each.metadata}
        every.append(Setting(each.name, kinds, optional, each.default, **more))
    return tuple(setting for setting in every if not parts or setting.part in parts)


@cache
def setting_names() -> tuple[str, ...]:
    return tuple(setting.name for setting in fit_settings())


@cache
def hyperparameter_names() -> tuple[str, ...]:
    """The fields whose default is the learner's published value."""
    published = {entry.name for entry in fields(Hyperparameters)}
    return tuple(name for name in setting_names() if name in published)


def given_words(text: str) -> tuple[str, ...]:
    """The words in a text with commas; ConfigError unless each is one word."""
    words = tuple(word.strip().lower() for word in text.split(","))
    for word in words:
        if not word or any(character.isspace() or character in "*[]{}" for character in word):
            raise ConfigError(
                f"words_given is {text!r}; it must be single words with commas between them."
            )
    return words


def field_name(key: str) -> str:
    """The field for a key of a file, which may be an option: `lambda` stands for `lambda_`."""
    option = f"--{key.replace('_', '-')}"
    return next((s.name for s in fit_settings() if s.flag == option and not s.negated), key)


def takes_settings(settings: Iterable[Setting]) -> Callable[[T], T]:
    """Give a class or function fields of FitConfig as keyword parameters.

    It is for a class or function with `**settings`: its signature then names every field that it
    does not name itself, and the line `**settings` of its docstring becomes their description.
    """

    def decorate(target: T) -> T:
        function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
        signature = inspect.signature(function)
        explicit = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = {parameter.name for parameter in explicit}
        added = [setting for setting in settings if setting.name not in names]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter(s.name, keyword, default=s.default, annotation=s.annotation)
            for s in added
        ]
        function.__signature__ = signature.replace(parameters=[*explicit, *parameters])
        document_settings(target, added)
        return target

    return decorate


def document_settings(target: Any, described: Iterable[Setting]) -> None:
    """Replace the line `**settings` of a docstring by a description of each field."""
    lines: list[str] = []
    for line in (target.__doc__ or "").splitlines():
        if line.strip() == "**settings":
            indent = line[: line.index("*")]
            lines += [indent + text for setting in described for text in _documentation(setting)]
        else:
            lines.append(line)
    target.__doc__ = "\n".join(lines)


def _documentation(setting: Setting) -> list[str]:
    head = f"{setting.name} : {setting.annotation}, default {setting.default_text}"
    return [head, *textwrap.wrap(setting.help, 88, initial_indent="    ", subsequent_indent="    ")]


def checked_value(setting: Setting, value: Any) -> Any:
    """The value of a field as one of its types; ConfigError if it is not allowed."""
    if value is None and setting.optional:
        return None
    typed = _typed(setting.kinds, value)
    if isinstance(typed, str):
        # Text in place of a number can only be a keyword.
        wrong = typed not in (setting.choices or setting.keywords or (typed,))
    elif typed is None or (isinstance(typed, float) and not math.isfinite(typed)):
        wrong = True
    else:
        wrong = setting.least is not None and typed < setting.least
        wrong |= setting.most is not None and typed > setting.most
    if wrong:
        usual = f"--{setting.title.replace('_', '-')}"
        option = f" ({setting.flag})" if setting.flag not in (None, usual) else ""
        raise ConfigError(
            f"{setting.title}{option} is {brief(value)}; it must be {setting.allowed}."
        )
    return typed


def _typed(kinds: Sequence[type], value: Any) -> Any:
    """A value as one of these types, None if it is none; a text that is a number is converted."""
    if isinstance(value, bool) or bool in kinds:
        return value if isinstance(value, bool) and bool in kinds else None
    with suppress(TypeError, ValueError, OverflowError):
        if int in kinds:
            return int(value) if isinstance(value, str) else operator.index(value)
        if float in kinds:
            return float(value)
    return str(value) if str in kinds and isinstance(value, str | os.PathLike) else None


document_settings(FitConfig, fit_settings())
