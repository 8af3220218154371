"""The card: every number in it is the run's, and its head is YAML that a hub reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_saving_format import make_saved

from ipl.saving import model_card


def _card(**changes: Any) -> str:
    return model_card(make_saved(**changes).config())


def _head(card: str) -> dict[str, Any]:
    import yaml

    _, head, _ = card.split("---\n", 2)
    values: dict[str, Any] = yaml.safe_load(head)
    return values


def test_it_says_what_the_run_is() -> None:
    card = _card()
    assert "# A learnt prompt for scenes\n" in card
    assert "> [V V] *stone* [V V] {cls}.\n" in card
    assert "| stone | 0.5000 | 1.5000 |" in card
    assert "75.0 % on the training images" in card
    assert "50.0 % on 8 held-out images" in card
    assert "20 training images of 2 classes" in card
    assert "seed 1, 100 epochs" in card
    assert "beach, starry night" in card
    assert "ab" * 6 in card
    assert card.endswith("\n")


def test_without_words_and_without_held_out_images() -> None:
    results = {**make_saved().results, "held_out_accuracy": None, "held_out_images": 0}
    card = _card(prompt="[V V V V] {cls}.", words=(), selection=None, results=results)
    assert "no words" in card
    assert "| word |" not in card
    assert "not measured" in card


def test_the_head_is_yaml() -> None:
    assert _head(_card())["library_name"] == "ipl"
    assert "base_model" not in _head(_card())


@pytest.mark.parametrize(
    ("name", "hub"),
    [
        ("openai/clip-vit-base-patch16", True),
        ("pocket", False),
        ("/models/clip", False),
        ("./models/clip", False),
        ("a/b/c", False),
    ],
)
def test_the_base_model_is_named_if_it_is_on_the_hub(name: str, hub: bool) -> None:
    head = _head(_card(backbone={**make_saved().backbone, "name": name}))
    assert head.get("base_model") == (name if hub else None)


def test_braces_in_names_are_text() -> None:
    card = _card(classes=("{{ 7 * 6 }}", "{% raw %}"), training={
        **make_saved().training, "data": "{{ 7 * 6 }}"
    })  # fmt: skip
    assert "# A learnt prompt for {{ 7 * 6 }}\n" in card
    assert "{% raw %}" in card
    assert "42" not in card


def test_a_value_that_is_missing_is_an_error() -> None:
    from jinja2 import UndefinedError

    config = make_saved().config()
    del config["training"]["seed"]
    with pytest.raises(UndefinedError, match="seed"):
        model_card(config)
