"""scikit-learn's own checks of estimators, on a PromptClassifier that takes tables of numbers.

The checks only know estimators for tables, so each row is drawn as a small grey picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_array

import ipl.classifier
from ipl import PromptClassifier
from ipl.backbone.siglip import SiglipBackbone

pytestmark = pytest.mark.filterwarnings("ignore:ConfigError occurred:UserWarning")
EXPECTED = {
    "check_classifiers_regression_target": "the message for labels that are not whole is our own",
    "check_classifiers_train": "images have no columns",
    "check_estimators_nan_inf": "labels must be names or whole numbers; the check gives 0.0",
    "check_n_features_in": "images have no columns",
    "check_n_features_in_after_fitting": "images have no columns",
    "check_parameters_default_constructible": "the default of reporter is an object",
    "check_requires_y_none": "fit(data) takes a dataset without y; the message for a list is ours",
    "check_supervised_y_2d": "a column of labels is refused",
}


class TableClassifier(PromptClassifier):
    """Takes rows of numbers as grey pictures."""

    def fit(self, X: Any, y: Any = None) -> TableClassifier:  # type: ignore[override]
        super().fit(_pictures(X), y)
        return self

    def encode(self, images: Any) -> Any:
        return super().encode(_pictures(images))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.one_d_array = tags.input_tags.string = False
        return tags


def _pictures(X: Any) -> list[Image.Image]:
    """Returns a picture for each row, with a stripe for each number."""
    grey = np.clip(128 + 40 * check_array(X).astype(float), 0, 255).astype(np.uint8)
    return [Image.fromarray(np.kron(row[None], np.ones((8, 8), np.uint8))) for row in grey]


@pytest.fixture(scope="module", autouse=True)
def _tiny_backbone(siglip: SiglipBackbone, one_thread: None) -> Iterator[None]:
    """Lets every fit have tiny random towers: what is checked is not how well it classifies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ipl.classifier, "load_backbone", lambda *how: siglip)
        yield


FAST: dict[str, Any] = {"words": 0, "epochs": 1, "views": 0, "shots": 2, "cache": False}


@parametrize_with_checks(
    [TableClassifier(**FAST)], expected_failed_checks=lambda estimator: EXPECTED
)
def test_checks_of_scikit_learn(estimator: TableClassifier, check: Any) -> None:
    check(estimator)
