"""The published learners: their hyperparameters, layouts and sizes, as far as no tower is needed.

The class that trains each of them stands in a file of its own, such as `learners/coop.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ipl.backbone.model_files import BackboneSizes
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.spec import LearnerSpec
from ipl.prompts.layout import EOS, SOS, ClassName, FixedText, PromptLayout, Soft

START = "a photo of a"
NARROWING = 16  # of CoCoOp's network


class PublishedSpec(LearnerSpec):
    """A learner of the package, whose parameters can be counted before it is built."""

    @classmethod
    def count_parameters(cls, layout: PromptLayout, depth: int, sizes: BackboneSizes) -> int:
        """Returns how many numbers are trained in a prompt.

        Parameters
        ----------
        layout : PromptLayout
            The segments of the prompt.
        depth : int
            How many layers get vectors of their own.
        sizes : BackboneSizes
            The sizes of the towers.
        """
        return layout.soft_count * sizes.text_width + cls.count_further(layout, depth, sizes)

    @classmethod
    @abstractmethod
    def count_further(cls, layout: PromptLayout, depth: int, sizes: BackboneSizes) -> int:
        """Returns how many numbers are trained beyond the soft vectors of the layout."""


def start_from_a_photo(m: int) -> PromptLayout:
    """Returns the layout `[V x m] CLS .`, initialised from "a photo of a" if m is 4."""
    start = START if m == len(START.split()) else None
    return PromptLayout((SOS, Soft(m, init=start), ClassName(), FixedText("."), EOS))


def first_words_learnt(m: int) -> PromptLayout:
    """Returns the layout whose first m words of "a photo of a" are learnt and the rest is text.

    Above four vectors they start at random, and no text follows.
    """
    words = START.split()
    if m > len(words):
        return PromptLayout((SOS, Soft(m), ClassName(), FixedText("."), EOS))
    rest = [FixedText(" ".join(words[m:]))] if m < len(words) else []
    start = Soft(m, init=" ".join(words[:m]))
    return PromptLayout((SOS, start, *rest, ClassName(), FixedText("."), EOS))


class CoOpSpec(PublishedSpec):
    """CoOp: `[V V V V] CLS .`, initialised from "a photo of a"; IPL's layout with words."""

    name = "coop"

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """Returns T = 200, m = 4 for the plain learner and T = 100, t = 10, m = 2 under IPL.

        Across datasets the plain learner trains 50 epochs.
        """
        if words:
            return Hyperparameters(epochs=100, interval=10, batch=32, lr=0.002, m=2)
        epochs = 50 if protocol == "cross-dataset" else 200
        return Hyperparameters(epochs=epochs, interval=10, batch=32, lr=0.002, m=4)

    @classmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        """Returns the published layout, or IPL's with words."""
        return PromptLayout.interleaved(words, m) if words else start_from_a_photo(m)

    @classmethod
    def count_further(cls, layout: PromptLayout, depth: int, sizes: BackboneSizes) -> int:
        """Returns 0."""
        del layout, depth, sizes
        return 0


class CoCoOpSpec(CoOpSpec):
    """CoCoOp: CoOp's layout, and a small network that shifts the vectors for every image."""

    name = "cocoop"

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """Returns T = 10, t = 1, one image at a time."""
        del words, protocol
        return Hyperparameters(epochs=10, interval=1, batch=1, lr=0.002, m=4)

    @classmethod
    def count_further(cls, layout: PromptLayout, depth: int, sizes: BackboneSizes) -> int:
        """Returns the size of the network: Linear(d, d/16), ReLU, Linear(d/16, width)."""
        del layout, depth
        narrow = max(1, sizes.feature_dim // NARROWING)
        return (sizes.feature_dim + 1) * narrow + (narrow + 1) * sizes.text_width


class KgCoOpSpec(CoOpSpec):
    """KgCoOp: CoOp with a penalty on the distance from hand-made prompts."""

    name = "kgcoop"
    uses_class_template = True

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """Returns T = 100, t = 10, batch 128."""
        del words, protocol
        return Hyperparameters(epochs=100, interval=10, batch=128, lr=0.002, m=4)


class MaPLeSpec(PublishedSpec):
    """MaPLe: `[V V] of a CLS .` with new vectors in deeper layers, coupled to the image side."""

    name = "maple"
    prompts_images = True
    deep_prompts = True
    wants_features = False

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """Returns T = 5, depth 9; across datasets T = 2, depth 3."""
        del words
        if protocol == "cross-dataset":
            return Hyperparameters(epochs=2, interval=1, batch=4, lr=0.0026, m=2, depth=3)
        return Hyperparameters(epochs=5, interval=1, batch=4, lr=0.0035, m=2, depth=9)

    @classmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        """Returns the published layout, or IPL's with words."""
        return PromptLayout.interleaved(words, m) if words else first_words_learnt(m)

    @classmethod
    def count_further(cls, layout: PromptLayout, depth: int, sizes: BackboneSizes) -> int:
        """Returns the size of the deeper text vectors, and of a linear map for each layer."""
        text_depth = min(depth, sizes.text_layers)
        couplings = min(text_depth, sizes.image_layers)
        deep = (text_depth - 1) * layout.groups[-1].size * sizes.text_width
        return deep + couplings * (sizes.text_width + 1) * sizes.image_width


class PromptSRCSpec(PublishedSpec):
    """PromptSRC: text and image prompts in each of the first layers, averaged over epochs."""

    name = "promptsrc"
    prompts_images = True
    deep_prompts = True

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """Returns T = 20, depth 9, average around epoch 15; across datasets depth 3, epoch 6."""
        del words
        average: dict[str, Any] = {"depth": 9, "average_mean": 15.0, "average_std": 1.0}
        if protocol == "cross-dataset":
            average = {"depth": 3, "average_mean": 6.0, "average_std": 10.0}
        return Hyperparameters(epochs=20, interval=1, batch=4, lr=0.0025, m=4, **average)

    @classmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        """Returns `[V V V V] CLS .` from "a photo of a", or IPL's layout with words."""
        return PromptLayout.interleaved(words, m) if words else first_words_learnt(m)

    @classmethod
    def count_further(cls, layout: PromptLayout, depth: int, sizes: BackboneSizes) -> int:
        """Returns the size of the deeper text vectors, and of the image vectors of every layer."""
        m = layout.groups[-1].size
        deep = (min(depth, sizes.text_layers) - 1) * m * sizes.text_width
        return deep + min(depth, sizes.image_layers) * m * sizes.image_width


# The file that trains each of them.
PUBLISHED: dict[str, tuple[type[PublishedSpec], str]] = {
    "coop": (CoOpSpec, "ipl.learners.coop"),
    "cocoop": (CoCoOpSpec, "ipl.learners.cocoop"),
    "kgcoop": (KgCoOpSpec, "ipl.learners.kgcoop"),
    "maple": (MaPLeSpec, "ipl.learners.maple"),
    "promptsrc": (PromptSRCSpec, "ipl.learners.promptsrc"),
}
