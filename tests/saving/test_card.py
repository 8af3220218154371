"""The card: every number in it is the run's, and its head is YAML that a hub reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ipl.config import FitConfig
from ipl.saving.format import config_of, model_card
from ipl.training.comparison import Comparison, Method
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
    assert "| stone | 0.5000 | 1.5000 |" in text
    assert "75.0 % on the training images" in text
    assert "50.0 % on 8 held-out images" in text
    assert "20 training images of 2 classes" in text
    assert "beach, starry night" in text
    assert "ab" * 6 in text
    assert text.endswith("\n")


def test_the_verdict_stands_below_the_accuracy(card: Call) -> None:
    methods = (
        Method("zero-shot", "a photo", (10, 0), 40, 0),
        Method("prompt", "[V V]", (20, 30)),
    )
    classes = ("beach", "starry night")
    comparison = Comparison(classes, (40, 40), methods, (), ("A note.",))
    text = card(comparison=comparison)
    assert f"with 95 % intervals: {comparison.verdict[0]}" in text
    assert "\n- A note.\n" in text


def test_without_words_and_without_held_out_images(card: Call) -> None:
    text = card(
        config=FitConfig(words=0),
        prompt="[V V V V] {cls}.",
        words=(),
        selection=None,
        comparison=None,
    )
    assert "no words" in text
    assert "| word |" not in text
    assert "not measured" in text
    assert text.count("word") == 1  # and no other speaks of words
    assert "interpretable" not in _head(text)["tags"]
    assert "interpretable" in _head(card())["tags"]
    assert "*word*" in card()
    assert "The words lower the loss" in card()


@pytest.mark.parametrize(
    ("name", "hub"),
    [
        ("openai/clip-vit-base-patch16", True),
        ("pocket", False),
        ("/models/clip", False),
    ],
)
def test_the_base_model_is_named_if_it_is_on_the_hub(name: str, hub: bool, card: Call) -> None:
    head = _head(card(backbone={**make_result().backbone, "name": name}))
    assert head.get("base_model") == (name if hub else None)


def test_braces_in_names_are_text(card: Call) -> None:
    text = card(classes=("{{ 7 * 6 }}", "{% raw %}"), data="{{ 7 * 6 }}")
    assert r"# A learnt prompt for {{ 7 \* 6 }}" in text
    assert "{% raw %}" in text
    assert "42" not in text


def test_markup_in_names_is_text(card: Call) -> None:
    name = "<script>alert(1)</script>"
    link = "[x](javascript:alert`1`)"
    text = card(
        classes=(name, link, "two\n\n# lines"),
        data=f"{link}\n\n# heading",
        backbone={**make_result().backbone, "name": f"a`<b>`` {link}"},
        ipl_version=name,
    )
    outside_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text.replace("\\`", ""))
    assert not re.search(r"(?<!\\)<", outside_code)
    assert not re.search(r"(?<!\\)\[x", outside_code)
    assert r"\<script\>alert(1)\</script\>" in text
    assert f"backbone ``` a`<b>`` {link} ``` (weights" in text
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        r"# A learnt prompt for \[x\](javascript:alert\`1\`) \# heading",
        "## How it was made",
        "## Use",
        "## Limits",
    ]  # fmt: skip


def test_names_with_underscores_are_shown_and_loaded_as_they_are(card: Call) -> None:
    saved = make_result(backbone={**make_result().backbone, "name": "a_b/c_d"})
    text = model_card(config_of(saved), "ada/my_prompt_1")
    assert _head(text)["base_model"] == "a_b/c_d"
    assert 'from_pretrained("ada/my_prompt_1")' in text
    assert "`ipl predict ada/my_prompt_1 IMAGES`" in text
