"""Learner, the base class of all prompt learners, and Batch, what a training step gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import (
    CentreCrops,
    FeatureStore,
    ImageFeatures,
    Source,
    encode_files,
)
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.tower import DeepPrompts
from ipl.datasets.benchmarks import PHOTO
from ipl.learners.hyperparameters import Hyperparameters
from ipl.prompts.bound_prompts import BoundPrompts, bind, initial_soft
from ipl.prompts.layout import PromptLayout
from ipl.support.errors import ConfigError


class Batch(NamedTuple):
    """The training images of one step.

    Parameters
    ----------
    labels : Tensor of shape (images,)
        The index of each image's class.
    features : Tensor of shape (images, dim), optional
        The normalised features of the frozen image tower; None for a learner whose
        `wants_features` is False.
    pixels : Tensor of shape (images, 3, height, width), optional
        The normalised pixels; None for a learner whose `prompts_images` is False.
    """

    labels: Tensor
    features: Tensor | None = None
    pixels: Tensor | None = None


class Learner(nn.Module, ABC):
    """The prompts of one list of classes, on a frozen backbone.

    A learner is a `torch.nn.Module` whose parameters are the trained part of the prompt and nothing
    else. A new one derives from this class, has a `name`, defines `hyperparameters` and
    `layout_for`, and is made known with `register`; `build`, `text_features`, `image_features`,
    `logits` and `loss` may be overridden.

    Parameters
    ----------
    backbone : Backbone
        The frozen towers.
    layout : PromptLayout
        The segments of the prompt.
    class_names : sequence of str
        The classes to tell apart.
    seed : int, default 1
        Draws the first values of the trained vectors.
    placeholder : str, default "token"
        What an empty word slot holds: "token" (the token "0") or "zero" (a zero vector).
    depth : int, default 1
        How many layers get vectors of their own.
    class_template : str
        A hand-made prompt with {} for the class name, for learners that stay near one.

    Attributes
    ----------
    name : str
        The name that `register` makes the class known by.
    prompts_images : bool
        Whether the learner also prompts the image tower; training and prediction then need pixels.
    wants_features : bool
        Whether the loss needs the features of the frozen image tower.
    deep_prompts : bool
        Whether layers beyond the first get vectors.
    recordable : bool
        Whether every step runs the same operations; False if the loss branches on values.
    words : tuple of str
        The words in the first slots, in order.
    prompts : BoundPrompts
        The embeddings of the prompts and the index of every row.
    soft : Parameter of shape (soft vectors, width)
        The trained vectors of the layout.

    Raises
    ------
    ConfigError
        If the prompt is too long for the backbone, or the learner prompts the image tower and the
        backbone's takes no prompts.
    """

    name: ClassVar[str]
    prompts_images: ClassVar[bool] = False
    wants_features: ClassVar[bool] = True
    deep_prompts: ClassVar[bool] = False
    recordable: ClassVar[bool] = True

    def __init__(
        self,
        backbone: Backbone,
        layout: PromptLayout,
        class_names: Sequence[str],
        seed: int = 1,
        placeholder: str = "token",
        depth: int = 1,
        class_template: str = PHOTO,
    ) -> None:
        super().__init__()
        if self.prompts_images and not backbone.image_layers:
            raise ConfigError(
                f"learner is {self.name!r}, whose prompts also enter the image tower, but that of "
                f"{backbone.name} takes none: it is a ResNet or comes from timm. Use a learner of "
                "the text side, such as coop."
            )
        self.backbone = backbone  # not a module: frozen, and no part of the state
        self.layout = layout
        self.words: tuple[str, ...] = ()
        self.placeholder, self.depth, self.class_template = placeholder, depth, class_template
        self.prompts: BoundPrompts = bind(layout, backbone, class_names, placeholder)
        generator = torch.Generator().manual_seed(seed)
        self.soft = nn.Parameter(initial_soft(layout, backbone, generator))
        self.build(generator)
        self.to(backbone.device)

    @classmethod
    def from_hyperparameters(
        cls,
        backbone: Backbone,
        class_names: Sequence[str],
        words: int,
        hyperparameters: Hyperparameters,
        **options: Any,
    ) -> Learner:
        """An untrained learner with the layout and depth of its hyperparameters."""
        layout = cls.layout_for(words, hyperparameters.m)
        return cls(backbone, layout, class_names, depth=hyperparameters.depth, **options)

    @classmethod
    @abstractmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """The published hyperparameters for a protocol; with 0 words those of the plain learner."""

    @classmethod
    @abstractmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        """The layout of a prompt with so many words, and m soft vectors in a group."""

    def build(self, generator: torch.Generator) -> None:
        """Adds parameters beyond the soft vectors of the layout, drawn from `generator`."""

    # -- building blocks ------------------------------------------------------------------------

    @property
    def text_depth(self) -> int:
        """How many text layers get vectors: `depth`, or all if there are fewer."""
        return min(self.depth, self.backbone.text_layers)

    @property
    def image_depth(self) -> int:
        """How many image layers get vectors: `depth`, or all if there are fewer."""
        return min(self.depth, self.backbone.image_layers)

    @property
    def group_size(self) -> int:
        """How many soft vectors the class-side group has."""
        return self.layout.groups[-1].size

    @cached_property
    def group_row(self) -> int:
        """The first row of the class-side group, the same in every prompt."""
        first = self.prompts.soft_index == self.layout.group_slice(-1).start
        return int(self.prompts.soft_rows[first][0])

    @staticmethod
    def vectors(layers: int, m: int, width: int, generator: torch.Generator) -> nn.Parameter:
        """Trainable vectors (layers, m, width) drawn from N(0, 0.02)."""
        return nn.Parameter(0.02 * torch.randn(layers, m, width, generator=generator))

    @staticmethod
    def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
        """A linear layer with torch's default initialisation, drawn from `generator`."""
        layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
        bound = inputs**-0.5
        with torch.no_grad():
            for parameter in (layer.weight, layer.bias):
                parameter.uniform_(-bound, bound, generator=generator)
        return layer

    # -- words ----------------------------------------------------------------------------------

    def place_word(self, word: str) -> None:
        """Put a word into the next empty slot, where it stays.

        Raises ConfigError if no slot is empty, or its word needs another number of tokens.
        """
        slot = len(self.words)
        if slot == self.layout.slots:
            raise ConfigError(f"All {slot} word slots are taken; there is none for {word!r}.")
        ids = self.backbone.tokenize(word)
        size = self.layout.slot_sizes[slot]
        if len(ids) != size:
            raise ConfigError(
                f"{word!r} is {len(ids)} tokens of {self.backbone.name}, not {size}; its slot has "
                f"room for {size}."
            )
        self.prompts.place_word(self.layout.slot_slice(slot), self.backbone.embed(ids))
        self.words = (*self.words, word)

    def rebuilt(
        self,
        *,
        class_names: Sequence[str] | None = None,
        words: Sequence[str] | None = None,
    ) -> Learner:
        """A learner with the same trained vectors and other classes or words."""
        other = type(self)(
            self.backbone,
            self.layout,
            self.prompts.class_names if class_names is None else class_names,
            placeholder=self.placeholder,
            depth=self.depth,
            class_template=self.class_template,
        )
        other.load_state_dict(self.state_dict())
        for word in self.words if words is None else words:
            other.place_word(word)
        return other

    # -- features, logits, loss -----------------------------------------------------------------

    def text_features(self) -> Tensor:
        """The normalised feature of each class (classes, dim)."""
        return self.encode_prompts(self.soft)

    def encode_prompts(self, soft: Tensor, deep: Tensor | None = None) -> Tensor:
        """The normalised feature of each class with these soft vectors.

        They are (soft, width), for features (classes, dim), or (groups, soft, width), for features
        (groups, classes, dim). Vectors `deep` (layers, rows, width) take the place of the
        class-side group before each layer from the second on.
        """
        rows = self.prompts.with_soft_vectors(soft if soft.ndim == 3 else soft[None])
        deep_prompts = None if deep is None else DeepPrompts(self.group_row, deep.unbind())
        features = self.backbone.encode_prompts(rows, self.prompts.endings, deep_prompts)
        return normalize(features if soft.ndim == 3 else features[0], dim=-1)

    def image_features(self, pixels: Tensor) -> Tensor:
        """Normalised features (images, dim) of normalised pixels."""
        return normalize(self.backbone.encode_image(pixels), dim=-1)

    def features_of_both(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """The features of images and of classes; a GPU runs both towers at once."""
        return self.backbone.side_by_side(partial(self.image_features, pixels), self.text_features)

    def encode_images(
        self,
        sources: Sequence[Source],
        crops: CentreCrops | None = None,
    ) -> ImageFeatures:
        """The features of image files, with the learner's image prompts if it has any."""
        encode = self.image_features if self.prompts_images else None
        return encode_files(self.backbone, sources, encode, crops)

    def features_of(self, images: LabelledFeatures, store: FeatureStore | None = None) -> Tensor:
        """The features (items, dim) of images as this learner encodes them.

        Images whose centre crops the store has kept are not opened again.
        """
        if not self.prompts_images:
            return images.features
        crops = None if store is None else store.crops
        return self.encode_images([item.path for item in images.items], crops=crops).features

    def logits(self, image_features: Tensor) -> Tensor:
        """Logits (images, classes) of image features (images, dim)."""
        return self.backbone.logits(image_features, self.text_features())

    @torch.no_grad()
    def log_probabilities(self, image_features: Tensor) -> Tensor:
        """Log-probabilities (images, classes), in fp64 on the CPU."""
        logits = self.logits(image_features.to(self.backbone.device))
        return logits.cpu().double().log_softmax(1)

    @property
    def fixed_texts(self) -> bool:
        """Whether the text features are the same for every image."""
        return type(self).logits is Learner.logits

    def logits_function(self) -> Callable[[Tensor], Tensor]:
        """A function from image features to logits that computes fixed texts only once."""
        if not self.fixed_texts:
            return self.logits
        texts = self.text_features()
        return lambda features: self.backbone.logits(features, texts)

    def loss(self, batch: Batch) -> Tensor:
        """The training loss of a batch."""
        assert batch.features is not None
        return cross_entropy(self.logits(batch.features), batch.labels)


def check_class_template(template: str) -> None:
    """Raises ConfigError unless a hand-made prompt has {} exactly once, for the class name."""
    if template.count("{}") != 1 or set("{}") & set(template.replace("{}", "")):
        raise ConfigError(
            f"class_template is {template!r}; it must contain {{}} once, for the class name."
        )
