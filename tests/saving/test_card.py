"""The card: every number in it is the run's, and its head is YAML that a hub reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ipl.config import FitConfig
from ipl.saving.format import config_of, model_card
from tests.helpers.saved_runs import make_result

Call = Callable[..., str]


@pytest.fixture
def card() -> Callable[..., str]:
    """Returns a maker of cards for prompts that differ in the fields it is given."""
    return lambda **changes: model_card(config_of(make_result(**changes)))


def _head(text: str) -> dict[str, Any]:
    import yaml

    _, head, _ = text.split("---\n", 2)
    values: dict[str, Any] = yaml.safe_load(head)
    return values


def test_it_says_what_the_run_is(card: Call) -> None:
    text = card()
    assert "# A learnt prompt for scenes\n" in text
    assert "> `[V V] *stone* [V V] {cls}.`\n" in text
    selection = make_result().selection
    assert selection is not None
    (step,) = selection.steps
    assert f"| stone | {step.gain:.4f} | {step.loss:.4f} |" in text
    assert "75.0 % on the training images" in text
    assert "50.0 % on 8 held-out images" in text
    assert "20 training images of 2 classes" in text
    assert "beach, starry night" in text


def test_without_words_and_without_held_out_images(card: Call) -> None:
    plain = {"config": FitConfig(words=0), "prompt": "[V V V V] {cls}.", "words": ()}
    text = card(**plain, selection=None, comparison=None)
    assert "no words" in text
    assert "| word |" not in text
    assert "not measured" in text
    assert "interpretable" not in _head(text)["tags"]
    assert "interpretable" in _head(card())["tags"]


@pytest.mark.parametrize("name", ["openai/clip-vit-base-patch16", "pocket", "/models/clip"])
def test_the_base_model_is_named_if_it_is_on_the_hub(name: str, card: Call) -> None:
    head = _head(card(backbone={**make_result().backbone, "name": name}))
    assert head.get("base_model") == (name if name.startswith("openai") else None)


def test_markup_in_names_is_text(card: Call) -> None:
    name = "<script>alert(1)</script>"
    link = "[x](javascript:alert`1`)"
    text = card(
        classes=(name, link, "two\n\n# lines"),
        data=f"{link}\n\n# heading",
        backbone={**make_result().backbone, "name": f"a`<b>`` {link}"},
        ipl_version=name,
    )
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        r"# A learnt prompt for \[x\](javascript:alert\`1\`) \# heading",
        "## How it was made",
        "## Use",
        "## Limits",
    ]  # fmt: skip
