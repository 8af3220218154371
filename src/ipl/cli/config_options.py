"""Command-line options made from the fields of FitConfig."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import typer

from ipl.config import settings
from ipl.config_fields import Setting


def config_options(
    chosen: Iterable[Setting] | None = None, *, unset: bool = False, show_defaults: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option for every field of FitConfig.

    The command is a function with a parameter `settings`: a dictionary with the values of these
    options by field name. Its options stand where `settings` stands among the parameters.

    Parameters
    ----------
    chosen : iterable of Setting, optional
        The fields; all that have a flag, if it is left out.
    unset : bool
        Whether an option that is not given is left out of `settings`, so that a recipe decides.
    show_defaults : bool
        Whether the help names the default of each field; not where a recipe always decides.
    """
    options = [s for s in (settings() if chosen is None else chosen) if s.flag is not None]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name == "settings":
                parameters += [_parameter(setting, unset, show_defaults) for setting in options]
            else:
                parameters.append(parameter)

        @wraps(command)
        def run(**values: Any) -> None:
            chosen_values = {setting: values.pop(setting.name) for setting in options}
            chosen_values = {s: v for s, v in chosen_values.items() if not (unset and v is None)}
            command(**values, settings={s.name: _value(s, v) for s, v in chosen_values.items()})

        del run.__wrapped__  # its signature is not the command's
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _parameter(setting: Setting, unset: bool, show_default: bool) -> inspect.Parameter:
    kind: Any = setting.kinds[0] if len(setting.kinds) == 1 else str  # "3" or "auto"
    default: Any = setting.default
    if kind is bool:
        default = False
    elif kind is str and default is not None:
        default = str(default)
    help_text = setting.option.flag_help or setting.option.help
    has_default = setting.default is not None or setting.kinds != (str,)
    if (unset or setting.default is None) and show_default and has_default and kind is not bool:
        help_text = f"{help_text.rstrip('.')} (default: {setting.default_text})."
    if unset:
        default = None
    if default is None:
        kind = kind | None
    option = typer.Option(default, str(setting.flag), help=help_text)
    return inspect.Parameter(
        setting.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=option, annotation=kind
    )


def _value(setting: Setting, value: Any) -> Any:
    return not value if setting.negated else value
