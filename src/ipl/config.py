"""FitConfig: the one description of a fit.

Every option of a fit is declared here once. The parameters of `PromptClassifier` and
`select_words`, the options of `ipl fit`, `ipl select`, `ipl bench` and `ipl ablate`, the settings
of recipes and records, the `config` block of a saved run and the command that repeats it are all
derived from these fields. This module imports nothing heavy, so that `--help` is quick.
"""

from __future__ import annotations

import inspect
import math
import shlex
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ipl.datasets.benchmarks import PHOTO
from ipl.support.errors import ConfigError, closest
from ipl.words.template import DEFAULT_TEMPLATE

if TYPE_CHECKING:
    from ipl.learners.recipe import Recipe

T = TypeVar("T", bound=Callable[..., Any])
AUTO = "auto"
FRESH = "fresh"
MAX_CHARACTERS = 60  # of a wrong value in a message

# What a field is about: which command takes it, and what depends on it.
DATA, MODEL, WORDS, TRAINING, MACHINE = PARTS = ("data", "model", "words", "training", "machine")


@dataclass(frozen=True)
class Option:
    """The metadata of a field: everything about it except its type and default.

    Parameters
    ----------
    help : str
        One sentence for `--help` and for the documentation of the parameter.
    part : str
        `data`, `model`, `words` (decides which words are chosen), `training`, or `machine` (decides
        where and how fast something is computed, never the result).
    flag : str or None
        The option on the command line; None if it has none.
    choices : tuple of str
        The allowed values, if they are a few names.
    least : float or None
        The smallest allowed number.
    above : float or None
        A number that the value must be larger than.
    keyword : str
        A text that is allowed in place of a number.
    concerns_words : bool
        Whether a prompt without words does not depend on it.
    bench : str
        `setting` if a plan of the bench has one value for all its runs, `list` if it has several,
        empty if the bench decides it.
    """

    help: str
    part: str
    flag: str | None
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    keyword: str = ""
    concerns_words: bool = False
    bench: str = "setting"


def _option(default: Any, help: str, part: str, flag: str | None, **more: Any) -> Any:
    return field(default=default, metadata={"option": Option(help, part, flag, **more)})


@dataclass(frozen=True)
class FitConfig:
    """The settings of a fit, in plain values, checked when it is built.

    A value of None stands for the learner's published value, which `recipe` fills in. `ipl fit
    --help` lists the same settings.

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
        "pocket", "pocket (bundled), a Hugging Face name or a model folder.", MODEL, "--backbone"
    )
    learner: str = _option("coop", "The prompt learner.", TRAINING, "--learner", bench="list")
    words: int | str = _option(
        3,
        "Words in the prompt, k: a number (0: the plain learner), or auto.",
        WORDS,
        "--words",
        least=0,
        keyword=AUTO,
        bench="list",
    )
    shots: int = _option(16, "Training images per class.", DATA, "--shots", least=1, bench="list")
    epochs: int | None = _option(None, "Epochs in all, T.", TRAINING, "--epochs", least=1)
    interval: int | None = _option(
        None, "Epochs after each word, t.", TRAINING, "--interval", least=1, concerns_words=True
    )
    batch: int | None = _option(None, "Images in a step.", TRAINING, "--batch", least=1)
    lr: float | None = _option(None, "Learning rate.", TRAINING, "--lr", above=0)
    m: int | None = _option(None, "Soft vectors in a group.", TRAINING, "--m", least=1)
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
        "exact (proved, most words ruled out by bounds), exhaustive (every word scored), "
        "screen or lazy (both approximate).",
        WORDS,
        "--search",
        choices=("exact", "exhaustive", "screen", "lazy"),
        concerns_words=True,
    )
    shortlist: int = _option(
        1000,
        "With --search screen: how many words are scored exactly.",
        WORDS,
        "--shortlist",
        least=20,
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
    views: int | str = _option(
        8,
        "Random crops per training image: a number, 0 (centre crop), or fresh.",
        TRAINING,
        "--views",
        least=0,
        keyword=FRESH,
    )
    words_file: str | None = _option(
        None, "Choose from your own list of words.", WORDS, "--words-file", concerns_words=True
    )
    no_names: bool = _option(
        False, "Leave proper names out of the pool.", WORDS, "--no-names", concerns_words=True
    )
    seed: int = _option(
        1, "Draws the shots and starts the vectors.", DATA, "--seed", least=0, bench="list"
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
        "Compute everything anew and keep nothing (see: ipl cache).",
        MACHINE,
        "--no-cache",
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
        self._check_together()

    def _check_together(self) -> None:
        """Raises ConfigError for values that are allowed each on its own, but not together."""
        from ipl.datasets.fewshot import check_draw
        from ipl.learners.learner import check_class_template
        from ipl.learners.registry import learner_class
        from ipl.words.template import Template

        check_draw(self.shots, self.seed)
        check_class_template(self.class_template)
        Template(self.template)
        kind = learner_class(self.learner)
        if (self.depth or 1) > 1 and not kind.deep_prompts:
            raise ConfigError(
                f"depth is {self.depth}; {kind.name} has vectors only in the first layer."
            )
        k = 1 if self.words == AUTO else int(self.words)
        self.recipe.word_epochs(k)

    @cached_property
    def recipe(self) -> Recipe:
        """Returns the hyperparameters of the fit: those given, else the learner's."""
        from ipl.learners.registry import learner_class

        published = learner_class(self.learner).recipe(
            self.words if isinstance(self.words, int) else 1, self.protocol
        )
        return published.override(**{name: getattr(self, name) for name in learner_values()})

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
    def from_dict(cls, values: Mapping[str, Any], strict: bool = True) -> FitConfig:
        """Returns the config of plain values, as a file or a command line gives them.

        Parameters
        ----------
        values : mapping
            Values by field name; `lambda` may stand for `lambda_`, and a text that is a number for
            the number. Fields that are left out keep their default.
        strict : bool
            Whether an unknown name is an error. A saved run of a later version may have more
            fields than this version knows.

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
            if name in names():
                settings[name] = value
            elif strict:
                raise ConfigError(f"{key!r} is not a setting.{closest(str(key), names())}")
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


@dataclass(frozen=True)
class Setting:
    """A field of FitConfig with its type, default and option.

    Parameters
    ----------
    name : str
        The name of the field.
    kinds : tuple of type
        The types that its value may have.
    optional : bool
        Whether it may be None, which stands for the learner's published value or for nothing.
    default : object
        Its value unless another is given.
    option : Option
        Its metadata.
    """

    name: str
    kinds: tuple[type, ...]
    optional: bool
    default: Any
    option: Option

    @property
    def title(self) -> str:
        """Returns the name as messages write it: `lambda` for `lambda_`."""
        return self.name.rstrip("_")

    @property
    def flag(self) -> str | None:
        """Returns the option on the command line, None if there is none."""
        return self.option.flag

    @property
    def negated(self) -> bool:
        """Returns whether the flag on the command line turns off what is on by default."""
        return self.kinds == (bool,) and self.default is True

    @property
    def changes_result(self) -> bool:
        """Returns whether the result of a fit depends on it."""
        return self.option.part != MACHINE

    @property
    def annotation(self) -> str:
        """Returns the types of its value, as they are written in code."""
        kinds = [kind.__name__ for kind in self.kinds]
        return " | ".join([*kinds, *(["None"] if self.optional else [])])

    @property
    def default_text(self) -> str:
        """Returns the default as the documentation writes it."""
        if self.default is None:
            return "none" if self.kinds == (str,) else "the learner's"
        return str(self.default)

    def accepts(self, value: Any) -> bool:
        """Returns whether a value is allowed."""
        try:
            checked_value(self, value)
        except ConfigError:
            return False
        return True

    @property
    def allowed(self) -> str:
        """Returns the allowed values, to follow "it must be" in a message."""
        option = self.option
        if option.choices:
            return "one of " + ", ".join(option.choices)
        if bool in self.kinds:
            return "true or false"
        if int not in self.kinds and float not in self.kinds:
            return "text"
        text = "a whole number" if int in self.kinds else "a number"
        if option.least is not None:
            text += f", {option.least:g} or more"
        if option.above is not None:
            text += f" above {option.above:g}"
        return f"{text}, or {option.keyword}" if option.keyword else text


@cache
def settings() -> tuple[Setting, ...]:
    """Returns all fields of FitConfig in order."""
    hints = typing.get_type_hints(FitConfig)
    return tuple(_setting(each, hints[each.name]) for each in fields(FitConfig))


@cache
def names() -> tuple[str, ...]:
    """Returns the names of all fields."""
    return tuple(setting.name for setting in settings())


@cache
def learner_values() -> tuple[str, ...]:
    """Returns the fields whose default is the learner's published value."""
    return tuple(
        setting.name
        for setting in settings()
        if setting.default is None and setting.option.part == TRAINING
    )


def field_name(key: str) -> str:
    """Returns the name of the field for a key of a file: `lambda` stands for `lambda_`."""
    return f"{key}_" if f"{key}_" in names() else key


def of_part(*parts: str) -> Iterator[Setting]:
    """Yields the fields that are about these parts of a fit."""
    return (setting for setting in settings() if setting.option.part in parts)


def takes_settings(*parts: str) -> Callable[[T], T]:
    """Gives a class or function the fields of FitConfig as keyword parameters.

    It is for a class or function with `**settings`: its signature then names every field that it
    does not name itself, and the line `**settings` of its docstring becomes their description.

    Parameters
    ----------
    *parts : str
        What the fields are about; without any, all fields are taken.
    """

    def decorate(target: T) -> T:
        function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
        signature = inspect.signature(function)
        explicit = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = {parameter.name for parameter in explicit}
        added = [s for s in (of_part(*parts) if parts else settings()) if s.name not in names]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [
            inspect.Parameter(s.name, keyword, default=s.default, annotation=s.annotation)
            for s in added
        ]
        function.__signature__ = signature.replace(parameters=[*explicit, *parameters])
        _document(target, added)
        return target

    return decorate


def _document(target: Any, described: Iterable[Setting]) -> None:
    """Replaces the line `**settings` of a docstring by a description of each field."""
    lines: list[str] = []
    for line in (target.__doc__ or "").splitlines():
        if line.strip() == "**settings":
            indent = line[: line.index("*")]
            lines += [indent + text for setting in described for text in _documentation(setting)]
        else:
            lines.append(line)
    target.__doc__ = "\n".join(lines)


def _documentation(setting: Setting) -> list[str]:
    """Returns the lines of numpydoc for a field."""
    head = f"{setting.name} : {setting.annotation}, default {setting.default_text}"
    return [
        head,
        *textwrap.wrap(setting.option.help, 88, initial_indent="    ", subsequent_indent="    "),
    ]


def _setting(config_field: Field[Any], hint: Any) -> Setting:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    optional = type(None) in kinds
    assert config_field.default is not MISSING
    kinds = tuple(kind for kind in kinds if kind is not type(None))
    option = config_field.metadata["option"]
    return Setting(config_field.name, kinds, optional, config_field.default, option)


def checked_value(setting: Setting, value: Any) -> Any:
    """Returns the value of a field; raises ConfigError if it is not allowed."""
    if value is None and setting.optional:
        return None
    value = _typed(setting, value)
    option = setting.option
    if isinstance(value, str):
        # Text in place of a number can only be the keyword.
        allowed = option.choices or ((option.keyword,) if option.keyword else (value,))
        wrong = value not in allowed
    else:
        wrong = not math.isfinite(value)
        wrong |= option.least is not None and value < option.least
        wrong |= option.above is not None and value <= option.above
    if wrong:
        raise _wrong(setting, value)
    return value


def _typed(setting: Setting, value: Any) -> Any:
    """Returns a value as one of a field's types; a text that is a number is converted."""
    kinds = setting.kinds
    if bool in kinds or isinstance(value, bool):
        if bool in kinds and isinstance(value, bool):
            return value
        raise _wrong(setting, value)
    if int in kinds:
        if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
            return int(value[:20])
        if isinstance(value, int):
            return value
        if hasattr(value, "__index__"):  # an integer of numpy
            return int(value)
    if float in kinds:
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                raise _wrong(setting, value) from None
        if isinstance(value, int | float) or hasattr(value, "__float__"):
            return float(value)
    if str in kinds and isinstance(value, str):
        return value
    if str in kinds and kinds == (str,) and hasattr(value, "__fspath__"):
        return str(value)
    raise _wrong(setting, value)


def _wrong(setting: Setting, value: Any) -> ConfigError:
    text = repr(value)
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}..."
    return ConfigError(f"{setting.title} is {text}; it must be {setting.allowed}.")


_document(FitConfig, settings())
