"""One frozen CLIP: tokens, features, the places where prompts enter, and the prefix cache."""

from ipl.backbone.clip import Backbone, Enter, check_precision
from ipl.backbone.images import (
    ImageFeatures,
    Source,
    crop,
    encode_files,
    encode_pixels,
    quiet_threads,
    to_device,
)
from ipl.backbone.loading import BACKBONES, load_backbone, load_tokenizer, load_wider, pick_device
from ipl.backbone.prefix import MEMORY, PrefixCache
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.store import FeatureStore

__all__ = [
    "BACKBONES",
    "MEMORY",
    "Backbone",
    "Enter",
    "FeatureStore",
    "ImageFeatures",
    "PrefixCache",
    "Preprocessing",
    "Source",
    "check_precision",
    "crop",
    "encode_files",
    "encode_pixels",
    "load_backbone",
    "load_tokenizer",
    "load_wider",
    "pick_device",
    "quiet_threads",
    "to_device",
]
