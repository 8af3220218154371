"""PromptScorer: losses of candidate words where they will stand, in the prompts of learners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.prefix_cache import MEMORY
from ipl.backbone.replaced_rows import ReplacedRows
from ipl.backbone.slot_features import SlotFeatures, SlotPrompts
from ipl.learners.learner import Learner
from ipl.support.errors import ConfigError
from ipl.words.loss import CrossEntropy, JoinedCrossEntropy
from ipl.words.scorer import WHOLE_PROMPTS, CandidateScorer


@dataclass(frozen=True)
class ScoredPrompts:
    """The prompts of a learner, whose next empty slot is to be filled, and images to score them on.

    Parameters
    ----------
    learner : Learner
        The learner, with the words chosen so far in its slots.
    features : Tensor of shape (images, dim)
        The features of the images as the learner encodes them.
    labels : Tensor of shape (images,)
        The class of each image among the learner's.
    """

    learner: Learner
    features: Tensor
    labels: Tensor

    def soft(self) -> Tensor:
        """Returns the soft vectors (soft, width) of the prompts."""
        return self.learner.soft_for(self.features.to(self.learner.backbone.device))

    def slot_prompts(self) -> SlotPrompts:
        """Returns the prompts with their slot."""
        learner = self.learner
        prompts = learner.prompts
        slot = learner.layout.slot_slice(len(learner.words))
        return SlotPrompts(
            prompts.assemble(self.soft()).detach(),
            prompts.eos,
            prompts.shared,
            int(prompts.slot_rows[0, slot][0]),
            learner.deep_text,
            learner.group_row,
        )


class PromptScorer(CandidateScorer):
    """Scores words in the next empty slot of one or more learners, each on images of its own.

    The loss is the mean over the images of all learners. With several learners whose vectors were
    trained on the others' images, every image is scored by vectors that have not seen it.

    Parameters
    ----------
    parts : sequence of ScoredPrompts
        The learners and their images.
    memory : float
        GiB of working memory.
    """

    def __init__(self, parts: Sequence[ScoredPrompts], memory: float = MEMORY) -> None:
        backbone = parts[0].learner.backbone
        losses = [
            CrossEntropy(
                normalize(part.features.to(backbone.device), dim=-1),
                part.labels,
                len(part.learner.prompts.class_names),
                backbone.logit_scale,
            )
            for part in parts
        ]
        super().__init__(backbone, JoinedCrossEntropy(losses), memory)
        self.parts = tuple(parts)
        self._passes: dict[torch.dtype, list[SlotFeatures]] = {}

    def features_without(self, selected: Sequence[str]) -> Tensor:
        """Returns the text features (classes, dim) with the next slot empty."""
        prompts = self.parts[0].slot_prompts()
        placeholder = prompts.embeddings[:1, prompts.slot]  # as precise as the candidates
        return next(self._features(selected, placeholder, torch.float32))[0]

    def features(
        self, selected: Sequence[str], candidates: Sequence[str], dtype: torch.dtype = torch.float32
    ) -> Iterator[Tensor]:
        """Yields text features (chunk, classes, dim) of the candidates in order."""
        rows = self.backbone.embed(self.backbone.tokenize_words(candidates))
        return self._features(selected, rows, dtype)

    def _features(
        self, selected: Sequence[str], rows: Tensor, dtype: torch.dtype
    ) -> Iterator[Tensor]:
        """Yields text features (chunk, classes, dim) of embeddings (candidates, width)."""
        assert all(part.learner.words == tuple(selected) for part in self.parts)
        if not self.backbone.causal:
            return self._whole_prompts(rows)
        if dtype not in self._passes:
            self._passes[dtype] = [
                SlotFeatures(self.backbone, part.slot_prompts(), dtype, self.memory)
                for part in self.parts
            ]
        return self._in_slots(self._passes[dtype], rows)

    def _in_slots(self, passes: Sequence[SlotFeatures], rows: Tensor) -> Iterator[Tensor]:
        for chunk in rows.split(min(each.candidates_at_once() for each in passes)):
            yield torch.cat([each.features(chunk) for each in passes], dim=1)

    @torch.no_grad()
    def _whole_prompts(self, rows: Tensor) -> Iterator[Tensor]:
        """Yields the same features, with every prompt encoded in full."""
        chunk = max(1, WHOLE_PROMPTS // self.cross_entropy.classes)
        prompts = [part.slot_prompts() for part in self.parts]
        for words in rows.split(chunk):
            features = []
            for each in prompts:
                texts = each.embeddings.repeat(len(words), 1, 1, 1)
                texts[:, :, each.slot] = words[:, None]
                enter = None if each.deep is None else ReplacedRows(each.deep_row, each.deep)
                eos = each.eos.repeat(len(words))
                encoded = self.backbone.encode_text(texts.flatten(0, 1), eos, enter)
                features.append(encoded.unflatten(0, (len(words), -1)))
            yield torch.cat(features, dim=1)


def check_scorable(kind: type[Learner], select_in: str) -> None:
    """Raises ConfigError if words cannot be scored in the prompts of a learner."""
    own_way = kind.encode_prompts is not Learner.encode_prompts
    own_way = own_way or kind.text_features is not Learner.text_features
    own_way = own_way or (kind.logits is not Learner.logits and kind.soft_for is Learner.soft_for)
    if own_way:
        raise ConfigError(
            f"select_in is {select_in!r}; {kind.name} computes its text features in a way of its "
            "own, so that its words can only be scored in a sentence (select_in 'sentence')."
        )
