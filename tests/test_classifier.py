"""PromptClassifier: from images to a saved prompt and back, on any data, with every learner."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image
from sklearn.base import clone

from ipl import Dataset, Pool, PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.datasets.dataset import Item
from ipl.datasets.fewshot import sample_shots
from ipl.support.errors import ConfigError, DataError
from ipl.training.comparison import (
    HEAD,
    LINEAR_PROBE,
    NAMED_PROBE,
    PROMPT,
    WITHOUT_WORDS,
    ZERO_SHOT,
)

POOL = Pool.from_words(
    ("adopt", "blue", "furry", "heather", "phone", "pile", "social", "visit", "reaction", "title"),
    "test",
)
FAST = {"views": 0, "epochs": 6, "interval": 2, "shots": 3, "pool": POOL, "device": "cpu"}


@pytest.fixture(scope="module")
def base(scenes: Dataset) -> Dataset:
    """Returns the first five classes of the drawn scenes."""
    return scenes.only(range(5), "five scenes")


@pytest.fixture(scope="module")
def fitted(pocket: Backbone, base: Dataset) -> PromptClassifier:
    return PromptClassifier(pocket, "coop", 2, **FAST).fit(base)


@pytest.fixture(scope="module")
def saved(fitted: PromptClassifier, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fitted.save_pretrained(folder)
    return folder


def test_what_a_fit_leaves_behind(fitted: PromptClassifier, base: Dataset) -> None:
    assert fitted.classes_ == list(base.class_names)
    assert len(fitted.words_) == 2
    assert set(fitted.words_) <= set(POOL.words)
    one, two = fitted.words_
    assert fitted.prompt_ == f"[V V] *{one}* [V V] *{two}* [V V] {{cls}}."
    assert fitted.selection_ is not None
    assert list(fitted.selection_.words) == fitted.words_
    assert fitted.result_.training["images"] == 15
    assert fitted.result_.results["held_out_images"] == 20
    assert fitted.result_.results["held_out_accuracy"] == fitted.score(base)
    assert fitted.score(base.only([4, 2, 0, 1, 3], "shuffled")) == fitted.score(base)


def test_probabilities_and_predictions_agree(fitted: PromptClassifier, base: Dataset) -> None:
    paths = [item.path for item in base.test[:7]]
    probabilities = fitted.predict_proba(paths)
    assert probabilities.shape == (7, 5)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    assert list(fitted.predict(paths)) == [fitted.classes_[i] for i in probabilities.argmax(1)]
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(paths)), probabilities, atol=1e-6)
    folder_of_images = [Image.open(path) for path in paths]
    np.testing.assert_array_equal(fitted.predict_proba(folder_of_images), probabilities)
    texts = [str(path) for path in paths]
    np.testing.assert_array_equal(fitted.predict_proba(texts), probabilities)
    assert fitted.predict_proba([]).shape == (0, 5)


def test_score_needs_neither_training_images_nor_a_second_class(
    fitted: PromptClassifier, base: Dataset, tmp_path: Path
) -> None:
    name = base.class_names[2]
    images = [item.path for item in base.test if item.label == 2]
    (tmp_path / "test" / name).mkdir(parents=True)
    for number, image in enumerate(images):
        copy = tmp_path / "test" / name / f"{number}.png"
        copy.write_bytes(Path(str(image)).read_bytes())
    right = np.mean([predicted == name for predicted in fitted.predict(images)])
    assert fitted.score(tmp_path) == pytest.approx(right)


def test_the_same_seed_gives_the_same_bits(
    pocket: Backbone, base: Dataset, fitted: PromptClassifier
) -> None:
    again = PromptClassifier(pocket, "coop", 2, **FAST).fit(base)
    assert torch.equal(again.learner_.soft, fitted.learner_.soft)
    assert again.result_.results == fitted.result_.results


def test_saved_and_loaded_it_predicts_the_same(
    fitted: PromptClassifier, saved: Path, base: Dataset, pocket: Backbone
) -> None:
    paths = [item.path for item in base.test]
    for backbone in (None, pocket):
        loaded = PromptClassifier.from_pretrained(saved, backbone, device="cpu")
        np.testing.assert_array_equal(loaded.predict_proba(paths), fitted.predict_proba(paths))
        assert loaded.prompt_ == fitted.prompt_
        assert loaded.selection_ == fitted.selection_
        assert loaded.as_dict() == fitted.as_dict()


def test_words_are_embedded_anew_on_loading(
    saved: Path, tmp_path: Path, pocket: Backbone, fitted: PromptClassifier
) -> None:
    """Another word in config.json gives that word's prompt: no word vector is stored."""
    other = tmp_path / "edited"
    other.mkdir()
    (other / "prompt.safetensors").write_bytes((saved / "prompt.safetensors").read_bytes())
    text = (saved / "config.json").read_text()
    config = json.loads(text)
    new = next(word for word in POOL.words if word not in fitted.words_)
    config["prompt"] = config["prompt"].replace(f"*{config['words'][0]}*", f"*{new}*")
    config["words"][0] = new
    (other / "config.json").write_text(json.dumps(config))
    loaded = PromptClassifier.from_pretrained(other, pocket)
    assert loaded.words_[0] == new
    row = loaded.learner_.prompts.rows[3]
    assert torch.equal(row, pocket.embed(pocket.tokenize(new))[0])


def test_any_class_list_works(fitted: PromptClassifier, base: Dataset) -> None:
    other = fitted.with_classes(["castle", "sea_side", "beach"])
    assert other.classes_ == ["castle", "sea side", "beach"]
    assert other.predict_proba([base.test[0].path]).shape == (1, 3)
    assert other.words_ == fitted.words_
    assert fitted.classes_ == list(base.class_names)  # the first one is untouched
    back = other.with_classes(base.class_names)
    assert back.score(base) == fitted.score(base)
    with pytest.raises(DataError, match="at least two"):
        fitted.with_classes(["castle"])
    for classes, wrong in (
        (["castle", "Castle"], "same name"),
        ("castle,lake", "classes is a single str"),
        (["castle", 5], r"classes\[1\] is 5"),
    ):
        with pytest.raises(DataError, match=wrong):
            fitted.with_classes(classes)  # type: ignore[arg-type]
    array = fitted.with_classes(np.array(["castle", "lake"]))
    assert array.classes_ == ["castle", "lake"]


def test_a_card_keeps_accuracy_with_the_classes_it_was_measured_on(
    fitted: PromptClassifier, tmp_path: Path
) -> None:
    fitted.with_classes(["castle", "beach", "bridge"]).save_pretrained(tmp_path / "other")
    card = (tmp_path / "other" / "README.md").read_text()
    assert "15 training images of 5 classes" in card
    assert f"\n- Classes in training: {', '.join(fitted.classes_)}.\n" in card
    assert "\n- Classifies: castle, beach, bridge. Not trained on: castle, bridge.\n- Wri" in card


def test_without_a_test_part_a_fifth_is_held_out_and_all_others_are_trained_on(
    pocket: Backbone, base: Dataset
) -> None:
    settings = {**FAST, "words": 0, "shots": None, "epochs": 1}
    alone = Dataset("alone", base.class_names, base.train)  # 4 images a class
    fitted = PromptClassifier(pocket, **settings).fit(alone)
    assert (fitted.result_.images, fitted.result_.held_out_images) == (15, 5)
    few = PromptClassifier(pocket, **{**settings, "shots": 2, "seed": 2}).fit(alone)
    assert (few.result_.images, few.result_.held_out_images) == (10, 5)
    images = [item.path for item in base.train]
    labels = [base.class_names[item.label] for item in base.train]
    pairs = PromptClassifier(pocket, **settings).fit(images, labels)
    assert (pairs.result_.images, pairs.result_.comparison) == (20, None)
    half = PromptClassifier(pocket, **settings).fit(images, labels, validation_fraction=0.5)
    assert (half.result_.images, half.result_.held_out_images) == (10, 10)


def test_a_head_classifies_the_classes_of_the_training(
    fitted: PromptClassifier, base: Dataset, pocket: Backbone, tmp_path: Path
) -> None:
    features = fitted.encode([item.path for item in base.test])
    prompt, head = fitted.learner_.logits(features).detach(), fitted.head_
    assert head is not None
    expected = head.alpha * prompt + features @ head.weight.T + head.bias
    both = fitted.log_probabilities(features)
    torch.testing.assert_close(both, expected.double().log_softmax(1), atol=1e-5, rtol=1e-5)
    some = fitted.with_classes([base.class_names[i] for i in (3, 0, 1)])
    renormalised = both[:, [3, 0, 1]].log_softmax(1)
    torch.testing.assert_close(some.log_probabilities(features), renormalised, atol=1e-5, rtol=0)
    other = fitted.with_classes([base.class_names[0], "castle"])
    assert other.head_ is None
    alone = other.learner_.log_probabilities(features)
    assert torch.equal(other.log_probabilities(features), alone)
    without = PromptClassifier(pocket, "coop", 0, **FAST, head=False).fit(base)
    assert without.result_.head is None
    assert torch.equal(
        without.learner_.log_probabilities(features), without.log_probabilities(features)
    )
    without.save_pretrained(tmp_path / "run")
    assert PromptClassifier.from_pretrained(tmp_path / "run", pocket).head_ is None


def test_unreadable_images_are_skipped(pocket: Backbone, base: Dataset, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(base.train[0].path.read_bytes()[:200])
    data = Dataset("b", base.class_names, (*base.train, Item(broken, 0)), base.test)
    fitted = PromptClassifier(pocket, "coop", 0, **{**FAST, "shots": 16}).fit(data)
    assert fitted.result_.training["images"] == 20
    assert any("1 training image was skipped" in n and "broken" in n for n in fitted.notes_)
    only = Dataset("o", base.class_names, (*base.train[4:], Item(broken, 0)), base.test)
    with pytest.raises(DataError, match="'beach' has no readable training image"):
        PromptClassifier(pocket, "coop", 0, **FAST).fit(only)
    with pytest.raises(DataError, match="damaged or incomplete"):
        fitted.predict([broken])


@pytest.mark.parametrize(
    ("images", "says"),
    [
        ("x.png", "images is a single str"),
        (None, "images is a single NoneType"),
        (pandas.DataFrame({"path": ["a.png"]}), "is a data frame"),
        (["a.png", b"x"], r"images\[1\] is bytes"),
    ],
)
def test_only_lists_of_paths_or_images(fitted: PromptClassifier, images: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        fitted.predict(images)


# -- published class lists -------------------------------------------------------------------------

QUICK: dict[str, Any] = {"words": 0, "epochs": 2, "shots": 2, "views": 0, "seed": 3}


@pytest.fixture(scope="module")
def three(scenes: Dataset) -> Dataset:
    return scenes.only([0, 1, 2], "three")


def test_a_published_list_may_say_a_name_twice(
    three: Dataset, pocket: Backbone, tmp_path: Path
) -> None:
    twice = ("beach", "beach", three.class_names[2])
    with pytest.raises(DataError, match="read the same"):
        replace(three, class_names=twice)
    published = replace(three, class_names=twice, alike=True)
    classifier = PromptClassifier(pocket, **QUICK, head=False).fit(published)
    assert classifier.classes_ == list(twice)
    # Equal prompts: the first of the two is always taken, so the second class is always missed.
    only_second = replace(published, test=tuple(i for i in three.test if i.label == 1))
    assert classifier.score(only_second) == 0.0
    other = PromptClassifier(pocket, **QUICK, head=False).fit(three).with_classes(published)
    assert other.classes_ == list(twice)
    assert other.score(only_second) == 0.0
    with pytest.raises(DataError, match="same name"):
        other.with_classes(twice)
    classifier.save_pretrained(tmp_path / "run")
    assert PromptClassifier.from_pretrained(tmp_path / "run", pocket).classes_ == list(twice)


# -- every learner ---------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["cocoop", "kgcoop", "maple", "promptsrc"])
def test_fit_predict_save_and_load(
    learner: str, pocket: Backbone, three: Dataset, tmp_path: Path
) -> None:
    depth = 2 if learner == "maple" else None
    how = {**QUICK, "words": 2, "depth": depth, "views": 2, "interval": 1, "batch": 3}
    classifier = PromptClassifier(pocket, learner, pool=POOL, **how).fit(three)
    assert [epoch.word for epoch in classifier.result_.history.epochs] == classifier.words_
    paths = [item.path for item in three.test[:4]]
    expected = classifier.predict_proba(paths)
    classifier.save_pretrained(tmp_path / "run")
    again = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    np.testing.assert_allclose(again.predict_proba(paths), expected, atol=1e-6)
    assert (again.words_, again.learner_.depth) == (classifier.words_, classifier.learner_.depth)
    back = again.with_classes(["cat", "dog"]).with_classes(three.class_names)
    assert list(back.predict(paths)) == list(classifier.predict(paths))


def test_a_wrong_parameter_is_refused_before_anything_is_computed() -> None:
    with pytest.raises(ConfigError, match="views is 'frsh'"):
        PromptClassifier("no/backbone", views="frsh").fit("nowhere")
    with pytest.raises(TypeError, match="no parameter 'veiws'. Did you mean 'views'"):
        PromptClassifier(veiws=3)


def test_a_loaded_classifier_has_the_parameters_it_was_trained_with(
    pocket: Backbone, three: Dataset, pool_file: Path, tmp_path: Path
) -> None:
    params = {
        "learner": "kgcoop", "words": 1, "shots": 2, "epochs": 3, "interval": 2, "batch": 4,
        "lr": 0.01, "m": 3, "lambda_": 0.3, "template": "a {cls}; {words}", "placeholder": "zero",
        "views": 2, "seed": 5, "class_template": "a drawing of a {}.",
        "words_file": str(pool_file), "cache": False,
    }  # fmt: skip
    fitted = PromptClassifier(pocket, **params).fit(three)
    fitted.save_pretrained(tmp_path / "run")
    loaded = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    assert loaded.get_params() == {**fitted.get_params(), "device": "auto"}
    assert loaded.config == fitted.config
    assert loaded.notes_ == []
    again = clone(loaded).fit(three)
    assert again.prompt_ == fitted.prompt_
    assert torch.equal(again.learner_.soft, fitted.learner_.soft)


def test_a_fit_is_compared_with_its_baselines(pocket: Backbone, base: Dataset) -> None:
    settings = {**FAST, "words": 1, "epochs": 2, "interval": 1, "cache": False}
    fitted = PromptClassifier(pocket, **settings).fit(base, compare=True)
    comparison = fitted.result_.comparison
    assert comparison is not None
    names = [method.name for method in comparison.methods]
    assert names == [ZERO_SHOT, LINEAR_PROBE, NAMED_PROBE, WITHOUT_WORDS, PROMPT, HEAD]
    accuracies = {method.name: comparison.accuracy(method) for method in comparison.methods}
    store = FeatureStore(pocket)
    assert accuracies[ZERO_SHOT] == zero_shot_accuracy(base, store)
    empty = PromptClassifier(pocket, **settings, empty_slots=True, head=False).fit(base)
    assert accuracies[WITHOUT_WORDS] == empty.result_.held_out_accuracy
    assert accuracies[HEAD] == fitted.score(base) == fitted.result_.held_out_accuracy
    shots = sample_shots(base.train, 3, 1)
    features, held_out = (
        store.encode([item.path for item in items]).features for items in (shots, base.test)
    )
    probe = fit_linear_probe(features, torch.tensor([item.label for item in shots]), 5)
    guesses = probe.logits(held_out).argmax(1).tolist()
    right = [guess == item.label for guess, item in zip(guesses, base.test, strict=True)]
    assert accuracies[LINEAR_PROBE] == sum(right) / len(right)
    assert "not tested" not in fitted.result_.about_words
