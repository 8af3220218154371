"""What every learner has: soft vectors in a layout, words in its slots, logits and a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ipl.backbone.backbone import Backbone, Enter
from ipl.backbone.encode_images import ImageFeatures, Source, encode_files
from ipl.datasets.benchmarks import PHOTO
from ipl.learners.batch import Batch
from ipl.learners.recipe import Recipe
from ipl.prompts.bound_prompts import BoundPrompts, bind, initial_soft
from ipl.prompts.layout import PromptLayout
from ipl.support.errors import ConfigError

CLASS_TEMPLATE = PHOTO  # a hand-made prompt, for learners that stay near one


def check_class_template(template: str) -> None:
    """Raises ConfigError unless a hand-made prompt has one place for the class name."""
    if template.count("{}") != 1 or set("{}") & set(template.replace("{}", "")):
        raise ConfigError(
            f"class_template is {template!r}; it needs {{}} once, for the class name."
        )


class Learner(nn.Module, ABC):
    """Prompts for one list of classes. Its parameters are the prompt and nothing else."""

    name: ClassVar[str]
    prompts_images: ClassVar[bool] = False  # then training and prediction need the pixels
    wants_features: ClassVar[bool] = True  # whether the loss asks for the frozen image features
    deep_prompts: ClassVar[bool] = False  # whether layers beyond the first get vectors
    recordable: ClassVar[bool] = True  # False if the loss looks at values on its way

    @classmethod
    @abstractmethod
    def recipe(cls, words: int, protocol: str = "base-to-novel") -> Recipe:
        """Returns the published numbers, for the plain learner (words = 0) or under IPL."""

    @classmethod
    @abstractmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        """Returns the layout with this many word slots and m vectors in a soft group."""

    def __init__(
        self,
        backbone: Backbone,
        layout: PromptLayout,
        class_names: Sequence[str],
        seed: int = 1,
        placeholder: str = "token",
        depth: int = 1,
        class_template: str = CLASS_TEMPLATE,
    ) -> None:
        super().__init__()
        if depth < 1:
            raise ConfigError(f"depth is {depth}; it must be 1 or more.")
        check_class_template(class_template)
        self.backbone = backbone  # not a module: frozen, and no part of the state
        self.layout = layout
        self.words: tuple[str, ...] = ()
        self.placeholder, self.depth, self.class_template = placeholder, depth, class_template
        self.prompts: BoundPrompts = bind(layout, backbone, class_names, placeholder)
        generator = torch.Generator().manual_seed(seed)
        first = initial_soft(layout, backbone, generator)
        self.soft = nn.Parameter(first)
        self.build(generator)
        self.to(backbone.device)

    @classmethod
    def from_recipe(
        cls, backbone: Backbone, class_names: Sequence[str], words: int, recipe: Recipe, **how: Any
    ) -> Learner:
        """Returns an untrained learner with this many word slots; `how` goes to __init__."""
        layout = cls.layout_for(words, recipe.m)
        return cls(backbone, layout, class_names, depth=recipe.depth, **how)

    def build(self, generator: torch.Generator) -> None:
        """Adds what a learner trains beside its layout's soft vectors, drawn from `generator`."""

    # -- what learners are built from -----------------------------------------------------------

    @property
    def text_depth(self) -> int:
        """Returns how many text layers get vectors: as many as asked for, and as there are."""
        return min(self.depth, len(self.backbone.text_layers))

    @property
    def image_depth(self) -> int:
        """Returns how many image layers get vectors: as many as asked for, and as there are."""
        return min(self.depth, len(self.backbone.image_layers))

    @property
    def group_size(self) -> int:
        """Returns how many soft vectors the class-side group has."""
        return self.layout.groups[-1].size

    @cached_property
    def group_row(self) -> int:
        """Returns the first row of the class-side group, the same in every prompt."""
        return int(self.prompts.soft_rows[0, self.layout.group_slice(-1)][0])

    @staticmethod
    def vectors(layers: int, m: int, width: int, generator: torch.Generator) -> nn.Parameter:
        """Returns trained vectors (layers, m, width) that start at N(0, .02)."""
        return nn.Parameter(0.02 * torch.randn(layers, m, width, generator=generator))

    @staticmethod
    def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
        """Returns a trained matrix that starts as torch's do, from this generator."""
        layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
        bound = inputs**-0.5
        with torch.no_grad():
            for parameter in (layer.weight, layer.bias):
                parameter.uniform_(-bound, bound, generator=generator)
        return layer

    # -- words ----------------------------------------------------------------------------------

    def place_word(self, word: str) -> None:
        """Puts a word into the next empty slot; it stays there."""
        slot = len(self.words)
        if slot == self.layout.slots:
            raise ConfigError(f"All {slot} word slots are taken; there is none for {word!r}.")
        ids = self.backbone.tokenize(word)
        if len(ids) != 1:
            raise ConfigError(f"{word!r} is {len(ids)} tokens of {self.backbone.name}, not one.")
        self.prompts.place_word(slot, self.backbone.embed(ids)[0])
        self.words = (*self.words, word)

    def rebuilt(
        self,
        *,
        layout: PromptLayout | None = None,
        class_names: Sequence[str] | None = None,
        words: Sequence[str] | None = None,
    ) -> Learner:
        """Build a learner with the same trained vectors and another layout, classes or words.

        Parameters
        ----------
        layout : PromptLayout, optional
            The layout of the new learner, with as many soft vectors as this one's. Default: the
            same layout.
        class_names : sequence of str, optional
            The classes of the new learner. Default: the same classes.
        words : sequence of str, optional
            The words of the new learner, for the first slots of its layout. Default: the same
            words.

        Returns
        -------
        Learner
            A new learner of the same kind on the same backbone; this one stays as it is.

        Raises
        ------
        ConfigError
            If a word is not a single token of the backbone, or if there are more words than slots.
        """
        other = type(self)(
            self.backbone,
            self.layout if layout is None else layout,
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
        """Returns the normalised feature of each class (classes, dim)."""
        return self.encode_prompts()

    def encode_prompts(self, enter: Enter | None = None) -> Tensor:
        """Returns the normalised features; `enter` may rewrite rows before the class name."""
        features = self.backbone.encode_text(
            self.prompts.assemble(self.soft), self.prompts.eos, enter, self.prompts.shared
        )
        return normalize(features, dim=-1)

    def image_features(self, pixels: Tensor) -> Tensor:
        """Returns normalised features (images, dim) of normalised pixels."""
        return normalize(self.backbone.encode_image(pixels), dim=-1)

    def encode_images(
        self, sources: Sequence[Source], advance: Callable[..., None] | None = None
    ) -> ImageFeatures:
        """Returns the features of images as this learner sees them, through its own prompts."""
        encode = self.image_features if self.prompts_images else None
        return encode_files(self.backbone, sources, advance, encode=encode)

    def logits(self, image_features: Tensor) -> Tensor:
        """Returns logits (images, classes) of image features (images, dim)."""
        return self.backbone.logits(image_features, self.text_features())

    @torch.no_grad()
    def log_probabilities(self, image_features: Tensor) -> Tensor:
        """Returns log-probabilities (images, classes), in fp64 on the CPU."""
        logits = self.logits(image_features.to(self.backbone.device))
        return logits.cpu().double().log_softmax(1)

    @property
    def fixed_texts(self) -> bool:
        """Returns whether the text features are the same for every image."""
        return type(self).logits is Learner.logits

    def head(self) -> Callable[[Tensor], Tensor]:
        """Returns logits(image features); text features that suit every image are made once."""
        if not self.fixed_texts:
            return self.logits
        texts = self.text_features()
        return lambda features: self.backbone.logits(features, texts)

    def loss(self, batch: Batch) -> Tensor:
        """Returns the loss of a batch."""
        assert batch.features is not None
        return cross_entropy(self.logits(batch.features), batch.labels)
