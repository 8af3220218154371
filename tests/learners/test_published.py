"""The specs of the published learners agree with the classes that train them."""

from __future__ import annotations

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.model_files import BundledTokenizer, read_sizes
from ipl.learners.published import PUBLISHED
from ipl.learners.registry import learner_class, learner_spec
from ipl.support.errors import ConfigError
from ipl.words.pool import Pool


@pytest.mark.parametrize("depth", [1, 3, 20])
@pytest.mark.parametrize("words", [0, 3])
@pytest.mark.parametrize("name", list(PUBLISHED))
def test_parameters_are_counted_without_a_backbone(
    name: str, words: int, depth: int, pocket: Backbone
) -> None:
    spec = PUBLISHED[name][0]
    sizes = read_sizes("pocket")
    assert sizes is not None
    layout = spec.layout_for(words, 4)
    built = learner_class(name)(pocket, layout, ["cat", "dog"], depth=depth)
    expected = sum(parameter.numel() for parameter in built.parameters())
    assert spec.count_parameters(layout, depth, sizes) == expected


@pytest.mark.parametrize("name", list(PUBLISHED))
def test_a_learner_is_its_spec(name: str) -> None:
    spec, kind = learner_spec(name), learner_class(name)
    assert issubclass(kind, spec)
    assert spec.name == kind.name == name
    for words in (0, 2):
        for protocol in ("base-to-novel", "cross-dataset"):
            assert spec.hyperparameters(words, protocol) == kind.hyperparameters(words, protocol)
    for trait in ("prompts_images", "wants_features", "deep_prompts", "uses_class_template"):
        assert getattr(spec, trait) == getattr(kind, trait)


def test_an_unknown_spec_comes_with_the_closest_name() -> None:
    with pytest.raises(ConfigError, match="No learner is called 'mapel'. Did you mean 'maple'"):
        learner_spec("mapel")


def test_the_bundled_tokenizer_reads_words_as_the_backbone_does(pocket: Backbone) -> None:
    tokenizer = BundledTokenizer()
    assert sorted(tokenizer.all_special_ids) == sorted(pocket.tokenizer.all_special_ids)
    for word in (*Pool.bundled().words[::100], "xylem", "naïve", "東京", "dog's", "", "two words"):
        options = {"add_special_tokens": False, "verbose": False}
        assert tokenizer.encode(word, **options) == pocket.tokenizer.encode(word, **options)
