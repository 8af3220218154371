"""Command-line options made from the fields of FitConfig."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import typer

from ipl.config import GROUPS, RARE, Setting, fit_settings


def config_options(
    chosen: Iterable[Setting] | None = None, *, unset: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for every field of FitConfig, or for the chosen ones.

    The command is a function with a parameter `settings`: a dictionary with the values of these
    options by field name. With `unset`, an option that is not given is left out of it, so that a
    recipe decides.
    """
    options = [s for s in (fit_settings() if chosen is None else chosen) if s.flag is not None]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in signature.parameters.values():
            if parameter.name == "settings":  # the help shows groups in the order of their options
                for group in GROUPS.values():
                    grouped = [setting for setting in options if setting.group == group]
                    parameters += [_parameter(each, unset) for each in grouped]
            else:
                parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
        rare = [setting for setting in options if setting.group == RARE]
        parameters += [_parameter(setting, unset) for setting in rare]

        @wraps(command)
        def run(**values: Any) -> None:
            given = {setting: values.pop(setting.name) for setting in options}
            given = {s: v for s, v in given.items() if not (unset and v is None)}
            command(
                **values, settings={s.name: not v if s.negated else v for s, v in given.items()}
            )

        del run.__wrapped__  # its signature is not the command's
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _parameter(setting: Setting, unset: bool) -> inspect.Parameter:
    kind: Any = setting.kinds[0] if len(setting.kinds) == 1 else str  # "3" or "auto"
    default: Any = setting.default
    if kind is bool:
        default = False
    elif kind is str and default is not None:
        default = str(default)
    help_text = setting.flag_help or setting.help
    has_default = setting.default is not None or setting.kinds != (str,)
    if (unset or setting.default is None) and has_default and kind is not bool:
        help_text = f"{help_text.rstrip('.')} (default: {setting.default_text})."
    if unset:
        default = None
    if default is None:
        kind = kind | None
    option = typer.Option(default, str(setting.flag), help=help_text, rich_help_panel=setting.group)
    return inspect.Parameter(
        setting.name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind
    )
