"""The sentence around the words."""

from __future__ import annotations

import pytest

from ipl.backbone.backbone import Backbone
from ipl.support.errors import ConfigError
from ipl.words.scorer import SentenceScorer
from ipl.words.template import Template
from tests.helpers.reference_loss import NAMES, Images, plain_loss


def test_a_template_with_text_after_the_words(pocket: Backbone, few_images: Images) -> None:
    template = Template("a {cls} showcasing: {words}.")
    scorer = SentenceScorer(pocket, NAMES, *few_images, template)
    ours = scorer.score(["blue"], ["furry"])
    loop = plain_loss(pocket, few_images, [f"a {n} showcasing: blue, furry." for n in NAMES])
    assert ours.sum().item() == pytest.approx(loop, abs=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "a photo",
        "a {cls}",
        "{words}",
        "{words} of a {cls}",
        "{cls} {cls} {words}",
        "{cls} {words} {x}",
        "{cls} un{words}",
        "{cls} {words}ish",
    ],
)
def test_what_is_no_template(text: str) -> None:
    with pytest.raises(ConfigError, match="template is"):
        Template(text)
