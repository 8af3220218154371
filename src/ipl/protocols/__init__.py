"""How methods are compared: the same pictures, the same seeds, the same measure."""

from ipl.protocols.base_to_novel import (
    BaseToNovel,
    Method,
    Outcome,
    base_to_novel,
    harmonic_mean,
    mean_and_spread,
)
from ipl.protocols.zero_shot import ZERO_SHOT_TEMPLATE, zero_shot_accuracy

__all__ = [
    "ZERO_SHOT_TEMPLATE",
    "BaseToNovel",
    "Method",
    "Outcome",
    "base_to_novel",
    "harmonic_mean",
    "mean_and_spread",
    "zero_shot_accuracy",
]
