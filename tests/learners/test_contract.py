"""The contract of learners: the five keep it, and who breaks it is told how."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ipl.backbone.backbone import Backbone
from ipl.learners import CoOp, Learner, check_learner, learner_class


@pytest.mark.parametrize("name", ["cocoop", "coop", "kgcoop", "maple", "promptsrc"])
def test_the_five_keep_the_contract(pocket: Backbone, name: str) -> None:
    check_learner(learner_class(name), pocket)


def change(method: str, instead: Any) -> type[Learner]:
    """Returns CoOp with another method, which is given what CoOp's own returns."""

    def changed(self: CoOp, *values: Any) -> Any:
        return instead(self, getattr(CoOp, method)(self, *values), *values)

    return type("Own", (CoOp,), {method: changed})


def adding(make: Any) -> type[Learner]:
    """Returns CoOp with a tensor or module `more`."""
    return change("build", lambda self, *_: setattr(self, "more", make(self)))


class PerClass(CoOp):
    """A learner with a number for each class."""

    def build(self, generator: torch.Generator) -> None:
        self.more = nn.Parameter(torch.zeros(len(self.prompts.class_names)))

    def logits(self, image_features: torch.Tensor) -> torch.Tensor:
        return super().logits(image_features) + self.more


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (type("Own", (CoOp,), {"name": None}), "no name"),
        (
            type("Own", (CoOp,), {"layout_for": lambda words, m: CoOp.layout_for(1, m)}),
            "layout_for has 1 word slots",
        ),
        (adding(lambda self: nn.Parameter(torch.randn(2))), "same seed starts more elsewhere"),
        (adding(lambda self: nn.Parameter(torch.ones(2))), "no gradient to more"),
        (adding(lambda self: nn.Parameter(torch.ones(2).half())), "parameter more must be .* fp32"),
        (adding(lambda self: self.backbone.model.text_projection), "parameter more.weight must be"),
        (adding(lambda self: nn.BatchNorm1d(2)), "buffers"),
        (
            change("place_word", lambda self, *_: self.prompts.rows.zero_()),
            "'stone'.* no effect",
        ),
        (change("loss", lambda self, loss, batch: loss.item()), "a single number as a tensor"),
        (change("loss", lambda self, loss, batch: loss * float("nan")), "the loss is nan"),
        (change("loss", lambda self, loss, _: 2 * loss.detach() - loss), "do not lower the loss"),
        (change("image_features", lambda self, own, pixels: -own), "set prompts_images = True"),
        (change("logits", lambda self, logits, _: logits[:, :2]), r"logits are \(4, 2\)"),
        (change("logits", lambda self, logits, _: logits - logits.mean(0)), "the other images"),
        (change("logits", lambda self, logits, _: logits.cumsum(1)), "order of the classes"),
        (PerClass, "for other classes: .*size mismatch for more"),
    ],
)
def test_what_breaks_the_contract(pocket: Backbone, cls: type[Learner], wrong: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s)^(Own|PerClass).*{wrong}"):
        check_learner(cls, pocket)
