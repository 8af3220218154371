"""The public names explain themselves: a first sentence, every parameter, what is returned."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import ipl
import ipl.learners

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def public_names() -> dict[str, Any]:
    """Returns the public classes and functions by their full names."""
    names = {
        f"{module.__name__}.{name}": getattr(module, name)
        for module in (ipl, ipl.learners)
        for name in module.__all__
    }
    return {name: value for name, value in names.items() if callable(value)}


def section(docstring: str, title: str) -> str | None:
    """Returns the text of a numpydoc section, or None where there is no such section."""
    pattern = rf"^{title}\n-{{{len(title)}}}\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)"
    match = re.search(pattern, docstring, re.DOTALL | re.MULTILINE)
    return match and match[1]


def described(text: str) -> dict[str, str]:
    """Returns the description of each parameter in the text of a section."""
    descriptions: dict[str, str] = {}
    for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        names, _, description = entry.partition("\n")
        for name in names.partition(" : ")[0].split(","):
            descriptions[name.strip()] = description.strip()
    descriptions.pop("", None)
    return descriptions


def documented_owner(value: Any) -> Any:
    """Returns what has to explain the parameters: for a class, the one that defines __init__."""
    if not inspect.isclass(value) or "__signature__" in vars(value):
        return value
    return next(cls for cls in value.__mro__ if "__init__" in vars(cls))


@pytest.mark.parametrize("name", public_names())
def test_the_first_line_is_a_sentence(name: str) -> None:
    docstring = inspect.getdoc(public_names()[name])
    assert docstring, f"{name} has no docstring"
    first, _, rest = docstring.partition("\n")
    assert first.endswith("."), first
    assert rest == "" or rest.startswith("\n"), "an empty line follows the first"


@pytest.mark.parametrize("name", public_names())
def test_every_parameter_is_explained(name: str) -> None:
    value = public_names()[name]
    owner = documented_owner(value)
    expected = []
    if owner.__module__ != "builtins":  # an exception takes its message
        parameters = inspect.signature(value).parameters.values()
        expected = [each.name for each in parameters if each.kind not in VARIADIC]
    docstring = inspect.getdoc(value) or ""
    text = section(docstring, "Parameters") or section(inspect.getdoc(owner) or "", "Parameters")
    descriptions = described(text or "")
    assert list(descriptions) == expected, f"{name} explains {list(descriptions)}"
    assert all(descriptions.values()), [key for key, words in descriptions.items() if not words]
    if inspect.isfunction(value) and value.__annotations__["return"] not in (None, "None"):
        assert section(docstring, "Returns"), f"{name} does not say what it returns"


def test_sections_are_read_as_numpydoc_means_them() -> None:
    """The reader itself: names in one line, several sections, text of several lines."""
    docstring = inspect.cleandoc(
        """Draw a scene.

        More about it.

        Parameters
        ----------
        name : str
            Which scene.
        width, height : int, default: 64
            The size,
            in pixels.
        style
            How it is painted.

        Returns
        -------
        Image
            The scene.
        """
    )
    descriptions = described(section(docstring, "Parameters") or "")
    assert list(descriptions) == ["name", "width", "height", "style"]
    assert descriptions["height"] == "The size,\n    in pixels."
    assert section(docstring, "Returns") == "Image\n    The scene."
    assert section(docstring, "Raises") is None
