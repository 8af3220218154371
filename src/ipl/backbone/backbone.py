"""The interface to one frozen vision-language model: tokens, features, where prompts enter.

Each family implements it in a file of its own (`ClipBackbone`, `SiglipBackbone`, ...), and
`load_backbone` chooses between them. Learners, the word search, prompts and inference know this
class alone. What it says about the modules of a model is true of most models of transformers; a
family overrides what differs.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad
from torch.utils.checkpoint import checkpoint

from ipl.backbone.ops import Endings
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.tower import LayerHook, TextTower, Tower, run
from ipl.support.errors import BackboneError, ConfigError, DataError

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Bytes of activations kept for gradients; beyond it, parts run again in the backward pass.
ACTIVATION_BYTES = 4 << 30
TEXTS_AT_ONCE = 1024  # plain strings that are encoded together
PROMPTS_AT_ONCE, PROMPTS_ON_GPU = 4096, 16384  # prompts that are, where nothing is learnt


class Backbone(ABC):
    """Both towers of one model, frozen, with its tokenizer and image transform.

    Features leave as fp32 and unnormalised, whatever precision the towers compute in.

    Parameters
    ----------
    name : str
        The name or folder that the model was loaded from.
    model : torch.nn.Module
        The model with both towers. It is frozen and moved to the device.
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer, or one with the same methods.
    preprocessing : Preprocessing
        The model's image transform.
    device : torch.device or str, default="cpu"
        Where the towers run.
    precision : {"fp32", "bf16", "fp16"}, default="fp32"
        Precision of the weights. A CPU computes in fp32 with the rounded weights.

    Attributes
    ----------
    causal : bool
        Whether a row of the text tower sees only itself and the rows before it, and the feature is
        read at EOS: prompts can then share a beginning. Otherwise a text always fills all
        positions, and rows after EOS are padding that others see.
    dtype : torch.dtype
        The precision in which the towers compute.
    logit_scale : float
        The factor 1/tau of the cosine in `logits`.
    weights_sha256 : str
        A hash of all weights, the same for every precision and device.
    """

    causal: bool

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        preprocessing: Preprocessing,
        device: torch.device | str = "cpu",
        precision: str = "fp32",
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.preprocessing = preprocessing
        self.device = torch.device(device)
        self.precision = precision
        dtype = PRECISIONS[precision]
        # Half precision is slow on a CPU, and crashes virtual machines that announce AMX without
        # having it: there, weights are rounded to half and computed with in fp32.
        self.dtype = dtype if self.device.type != "cpu" else torch.float32
        self.weights_sha256 = hash_weights(model)  # before the cast: one hash for every precision
        # Token embeddings stay fp32, because the prompts that are made of them do.
        self._token_embeddings = self._token_table(model).detach().float().to(self.device)
        self.logit_scale = float(model.logit_scale.detach().exp())
        self.model = model.eval().requires_grad_(False).to(dtype).to(self.device, self.dtype)
        self._word_tokens: dict[str, int] = {}
        self._text_towers: dict[torch.dtype, TextTower] = {}

    # -- what a family says about its models ----------------------------------------------------

    @property
    @abstractmethod
    def opening(self) -> tuple[int, ...]:
        """The token ids that stand before every text; empty if there are none."""

    @abstractmethod
    def _build_text_tower(self, dtype: torch.dtype) -> TextTower:
        """The text tower in a precision."""

    @abstractmethod
    def _build_image_tower(self) -> Tower:
        """The image tower, which prompts can enter."""

    @abstractmethod
    def _image_rows(self, pixels: Tensor, prompts: Tensor | None) -> Tensor:
        """The first rows (images, rows, width) of the image tower, prompts at the end."""

    @abstractmethod
    def _pool_image(self, rows: Tensor) -> Tensor:
        """The features (images, dim) of the last rows of the image tower."""

    takes_image_prompts = True
    image_row: int | None = None  # the only row that `_pool_image` reads, if there is one
    text_row: int | None = -1  # of a tower that is not causal: where the feature is read; None: EOS

    @property
    def family(self) -> str:
        """The family of the model, as `ipl list backbones` shows them."""
        return str(self.model.config.model_type)

    @cached_property
    def eos(self) -> int:
        """The id of the token that ends a text."""
        return int(self.tokenizer.eos_token_id)

    @cached_property
    def pad(self) -> int:
        """The id of the token that fills a text up to all positions."""
        return int(self.tokenizer.pad_token_id)

    @staticmethod
    def _token_table(model: Any) -> Tensor:
        """The embedding (tokens, width) of each token."""
        table: Tensor = model.text_model.embeddings.token_embedding.weight
        return table

    def _architecture(self) -> dict[str, Any]:
        """What decides a feature beside the weights, as plain values."""
        config = self.model.config.to_dict()
        names = ("text_config", "vision_config", "projection_dim")
        towers = {name: config.get(name) for name in names}
        for tower in towers.values():  # where it was loaded from, and by which version, is no part
            if isinstance(tower, dict):
                for key in ("_name_or_path", "transformers_version", "dtype", "torch_dtype"):
                    tower.pop(key, None)
        return towers

    # -- the same for all families --------------------------------------------------------------

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of everything but the device that decides a feature, for cache keys."""
        parts = [self.weights_sha256, self.precision, self.preprocessing.as_dict()]
        parts += [self._architecture(), self.tokenizer.get_vocab()]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def feature_dim(self) -> int:
        """The dimension of the space that both towers share."""
        return len(self.text_tower(self.dtype).projection.weight)

    @property
    def text_width(self) -> int:
        return int(self._token_embeddings.shape[1])

    @property
    def text_layers(self) -> int:
        return len(self.text_tower(self.dtype).tower.layers)

    @property
    def positions(self) -> int:
        """The number of tokens that a text may have, special tokens included."""
        return len(self.text_tower(self.dtype).positions)

    @property
    def image_width(self) -> int:
        """The width of the image tower; 0 if it takes no prompts."""
        return self.image_tower.width if self.takes_image_prompts else 0

    @property
    def image_layers(self) -> int:
        """The number of layers of the image tower; 0 if it takes no prompts."""
        return len(self.image_tower.layers) if self.takes_image_prompts else 0

    def text_tower(self, dtype: torch.dtype) -> TextTower:
        """The text tower in a precision, built once."""
        if dtype not in self._text_towers:
            self._text_towers[dtype] = self._build_text_tower(dtype)
        return self._text_towers[dtype]

    @cached_property
    def image_tower(self) -> Tower:
        """The image tower in the precision of the backbone."""
        return self._build_image_tower()

    # -- tokens ---------------------------------------------------------------------------------

    def tokenize(self, text: str) -> list[int]:
        """The token ids of a text, without the special tokens around it.

        Raises DataError if it contains a special token or a character that the tokenizer does not
        know.
        """
        return self._tokenize([text])[0]

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        given = list(texts)
        ids = self.tokenizer(given, add_special_tokens=False, verbose=False)["input_ids"]
        # An unknown character becomes CLIP's EOS token, which would end the prompt right there.
        special = {self.eos, *self.opening}
        for text, row in zip(given, ids, strict=True):
            if not special.isdisjoint(row):
                raise DataError(
                    f"{text!r} contains a special token or a character that {self.name} cannot "
                    "read."
                )
        return [list(row) for row in ids]

    def tokenize_words(self, words: Sequence[str]) -> list[int]:
        """The token id of each word, which must be one ordinary token."""
        new = [word for word in words if word not in self._word_tokens]
        if new:
            token_lists = self.tokenizer(new, add_special_tokens=False)["input_ids"]
            for word, ids in zip(new, token_lists, strict=True):
                if len(ids) != 1 or ids[0] in (self.eos, *self.opening):
                    raise ConfigError(
                        f"{word!r} is {len(ids)} tokens of {self.name}, or a special one; a "
                        "candidate must be exactly one ordinary token."
                    )
                self._word_tokens[word] = int(ids[0])
        return [self._word_tokens[word] for word in words]

    def embed(self, ids: Sequence[int] | Tensor) -> Tensor:
        """Token embeddings (..., width) in fp32, without positions, of ids (...)."""
        indices = torch.as_tensor(ids, dtype=torch.long, device=self.device)
        embeddings: Tensor = self._token_embeddings[indices]
        return embeddings

    def nearest_tokens(self, vectors: Tensor, count: int = 1) -> list[list[str]]:
        """The tokens of the whole vocabulary nearest to each vector, by Euclidean distance.

        This is how CoOp's own script looks them up: words, pieces of words and signs.
        """
        tokens = sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1])
        vocabulary = self.embed([number for _, number in tokens])
        distances = torch.cdist(vectors.to(vocabulary), vocabulary)
        nearest = distances.topk(count, largest=False).indices.tolist()
        texts = [text.removesuffix("</w>").removeprefix("▁") for text, _ in tokens]
        return [[texts[index] for index in row] for row in nearest]

    # -- text -----------------------------------------------------------------------------------

    def encode_prompts(
        self, rows: Tensor, endings: Endings, hook: LayerHook | None = None
    ) -> Tensor:
        """The features (groups, prompts, dim) of prompts, in fp32 and not normalised.

        The rows (groups, rows, width) are token embeddings without positions: the beginning that
        the prompts of a group share, from the opening tokens on, and then the ending of each up to
        EOS. In a causal tower the beginning is run once for all. Before each layer `hook` may
        replace rows. Gradients flow to the rows; if the activations for them would not fit in
        memory, the groups are run in parts, each a second time in the backward pass.
        """
        self.check_length(endings.shared + endings.longest)
        tower = self.text_tower(self.dtype)
        if not self.causal:
            whole, eos = self._fill_positions(rows, endings)
            encode_whole = partial(self._encode_whole, hook=hook)
            features = self._in_parts(encode_whole, whole, eos)
            return features.view(len(rows), len(endings.lengths), -1)

        def encode(rows: Tensor) -> Tensor:
            ends = run(tower.tower, rows, endings, hook=hook, last=endings.last)
            return tower.project(ends).float()

        return self._in_parts(encode, rows.to(self.dtype) + tower.positions[endings.positions])

    @torch.no_grad()
    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """The features (texts, dim) of strings, in fp32, not normalised, no gradients."""
        ids = [[*self.opening, *row, self.eos] for row in self._tokenize(texts)]
        features = []
        for start in range(0, len(ids), TEXTS_AT_ONCE):
            part = ids[start : start + TEXTS_AT_ONCE]
            endings = Endings(0, [len(row) for row in part], self.device)
            rows = self.embed([token for row in part for token in row])
            features.append(self.encode_prompts(rows[None], endings)[0])
        return torch.cat(features)

    @property
    def prompts_at_once(self) -> int:
        """How many prompts to encode together where nothing is learnt.

        A GPU is not busy with fewer if the tower runs only their endings.
        """
        many = self.device.type == "cuda" and self.causal
        return PROMPTS_ON_GPU if many else PROMPTS_AT_ONCE

    def check_length(self, tokens: int) -> None:
        """Raises BackboneError if a prompt of so many tokens has no place."""
        if tokens > self.positions:
            raise BackboneError(
                f"A prompt of {tokens} tokens does not fit the {self.positions} positions of "
                f"{self.name}."
            )

    def _fill_positions(self, rows: Tensor, endings: Endings) -> tuple[Tensor, Tensor]:
        """Whole prompts (prompts, positions, width), and the row of each one's EOS."""
        beginning = torch.arange(endings.shared, device=self.device)
        own = endings.padded.view(len(endings.lengths), -1)
        index = torch.cat([beginning.expand(len(own), -1), own], dim=1)
        lengths = torch.tensor(endings.lengths, device=self.device)
        eos = endings.shared + lengths - 1
        whole = pad(rows[:, index], (0, 0, 0, self.positions - index.shape[1]))
        after_eos = torch.arange(self.positions, device=self.device) > eos[:, None]
        whole = torch.where(after_eos[..., None], self.embed([self.pad]), whole).flatten(0, 1)
        positions = self.text_tower(self.dtype).positions
        return whole.to(self.dtype) + positions, eos.repeat(len(rows))

    def _encode_whole(self, rows: Tensor, eos: Tensor, hook: LayerHook | None) -> Tensor:
        """The features (prompts, dim) of whole prompts (prompts, positions, width)."""
        tower = self.text_tower(self.dtype)
        rows = run(tower.tower, rows, hook=hook)
        row = eos if self.text_row is None else self.text_row
        return tower.project(rows[torch.arange(len(rows), device=self.device), row]).float()

    def _in_parts(self, encode: Callable[..., Tensor], rows: Tensor, *more: Tensor) -> Tensor:
        """Encode(rows, *more), in parts if what gradients need would not fit in memory."""
        if not (torch.is_grad_enabled() and rows.requires_grad):
            return encode(rows, *more)
        layer = self.text_tower(self.dtype).tower.layers[0]
        numbers = 8 * self.text_width + len(layer.up.weight)  # that a layer keeps of a row
        group_bytes = rows.shape[1] * numbers * self.text_layers * self.dtype.itemsize
        most = ACTIVATION_BYTES // group_bytes
        if len(rows) <= max(1, most):
            return encode(rows, *more)
        features = []
        for part in zip(*(each.split(max(1, most // 4)) for each in (rows, *more)), strict=True):
            features.append(
                checkpoint(encode, *part, use_reentrant=False, preserve_rng_state=False)
            )
        return torch.cat(features)

    # -- images ---------------------------------------------------------------------------------

    def encode_image(
        self, pixels: Tensor, prompts: Tensor | None = None, hook: LayerHook | None = None
    ) -> Tensor:
        """The features (images, dim) of normalised pixels, in fp32 and not normalised.

        Prompts (rows, width) or (images, rows, width) are appended after the patch rows, behind the
        position embedding. Before each layer `hook` may replace rows.
        """
        rows = self._image_rows(pixels.to(self.device, self.dtype), prompts)
        last = None if self.image_row is None else self._image_last
        return self._pool_image(run(self.image_tower, rows, hook=hook, last=last)).float()

    @cached_property
    def _image_last(self) -> Tensor:
        return torch.tensor([self.image_row], device=self.device)

    def _append_prompts(self, rows: Tensor, prompts: Tensor | None) -> Tensor:
        """Rows (batch, rows, width) with the prompts after them."""
        if prompts is None:
            return rows
        prompts = prompts.to(self.dtype).expand(rows.shape[0], *prompts.shape[-2:])
        return torch.cat([rows, prompts], dim=1)

    def no_features(self) -> Tensor:
        """The features (0, dim) of no image."""
        return torch.zeros(0, self.feature_dim, device=self.device)

    # -- together -------------------------------------------------------------------------------

    def logits(self, image_features: Tensor, text_features: Tensor) -> Tensor:
        """The scaled cosines (..., images, classes) of features (..., dim)."""
        images, texts = normalize(image_features, dim=-1), normalize(text_features, dim=-1)
        return self.logit_scale * images @ texts.transpose(-1, -2)

    def side_by_side(
        self, first: Callable[[], Tensor], second: Callable[[], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """What two functions return, neither of which may depend on the other.

        On a GPU the first runs on a stream of its own; elsewhere they run one after the other.
        """
        if self.device.type != "cuda":
            return first(), second()
        current = torch.cuda.current_stream(self.device)
        # Of another pool than the stream on which a step is recorded.
        other = torch.cuda.Stream(self.device, priority=-1)
        other.wait_stream(current)
        with torch.cuda.stream(other):
            one = first()
        two = second()
        current.wait_stream(other)
        one.record_stream(current)
        return one, two


# -- helpers of all families ----------------------------------------------------------------------


def hash_weights(model: Any) -> str:
    """A SHA-256 of all weights as fp32, whatever file, order or names they came in."""
    digests = []
    for tensor in model.state_dict().values():
        value = tensor.detach().to("cpu", torch.float32).contiguous()
        digest = hashlib.sha256(repr(tuple(value.shape)).encode())
        digest.update(memoryview(value.reshape(-1).numpy()).cast("B"))
        digests.append(digest.digest())
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()
