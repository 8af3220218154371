"""What a field of FitConfig carries beside its value, and how its value is checked.

`takes_settings` gives a class or function such fields as parameters.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass
from typing import Any, TypeVar

from ipl.support.errors import ConfigError, brief

T = TypeVar("T", bound=Callable[..., Any])
OPTION = "option"  # in the metadata of a field
MAX_DIGITS = 18  # of a whole number that is given as text

# What a field is about: which command takes it, and what depends on it.
DATA, MODEL, WORDS, TRAINING, MACHINE = ("data", "model", "words", "training", "machine")


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
    flag_help : str
        The sentence for `--help`, where it is not `help`: for a flag that turns something off.
    choices : tuple of str
        The allowed values, if they are a few names.
    least : float or None
        The smallest allowed number.
    most : float or None
        The largest allowed number: what is larger could only be a slip, and would run for years.
    above : float or None
        A number that the value must be larger than.
    keywords : tuple of str
        Texts that are allowed in place of a number.
    concerns_words : bool
        Whether only prompts with words depend on it.
    bench : str
        `setting` if a plan of the bench has one value for all its runs, `list` if it has several,
        empty if the bench decides it.
    """

    help: str
    part: str
    flag: str | None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    keywords: tuple[str, ...] = ()
    concerns_words: bool = False
    bench: str = "setting"
    flag_help: str = ""


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
            # What the bench decides for each run is no hyperparameter.
            published = self.kinds != (str,) and bool(self.option.bench)
            return "the learner's" if published else "none"
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
        if option.least is not None and option.most is not None:
            text += f" from {option.least:g} to {option.most:,}"
        elif option.least is not None:
            text += f", {option.least:g} or more"
        if option.above is not None:
            text += f" above {option.above:g}"
        return f"{text}, or {' or '.join(option.keywords)}" if option.keywords else text


def takes_settings(settings: Iterable[Setting]) -> Callable[[T], T]:
    """Gives a class or function fields of FitConfig as keyword parameters.

    It is for a class or function with `**settings`: its signature then names every field that it
    does not name itself, and the line `**settings` of its docstring becomes their description.

    Parameters
    ----------
    settings : iterable of Setting
        The fields.
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


def read_setting(config_field: Field[Any], hint: Any) -> Setting:
    """Returns the setting of a field of a dataclass with this type."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    optional = type(None) in kinds
    assert config_field.default is not MISSING
    kinds = tuple(kind for kind in kinds if kind is not type(None))
    option = config_field.metadata[OPTION]
    return Setting(config_field.name, kinds, optional, config_field.default, option)


def checked_value(setting: Setting, value: Any) -> Any:
    """Returns the value of a field; raises ConfigError if it is not allowed."""
    if value is None and setting.optional:
        return None
    value = _typed(setting, value)
    option = setting.option
    if isinstance(value, str):
        # Text in place of a number can only be a keyword.
        allowed = option.choices or option.keywords or (value,)
        wrong = value not in allowed
    else:
        wrong = isinstance(value, float) and not math.isfinite(value)
        wrong |= option.least is not None and value < option.least
        wrong |= option.most is not None and value > option.most
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
            if len(value) > MAX_DIGITS:
                bounded = setting.option.most is not None
                raise _wrong(setting, value, "" if bounded else f", of at most {MAX_DIGITS} digits")
            return int(value)
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
            try:
                return float(value)
            except OverflowError:
                raise _wrong(setting, value) from None
    if str in kinds and isinstance(value, str):
        return value
    if str in kinds and kinds == (str,) and hasattr(value, "__fspath__"):
        return str(value)
    raise _wrong(setting, value)


def _wrong(setting: Setting, value: Any, more: str = "") -> ConfigError:
    return ConfigError(f"{setting.title} is {brief(value)}; it must be {setting.allowed}{more}.")
