"""One frozen CLIP: tokens, features, the places where prompts enter, and the prefix cache."""

from ipl.backbone.clip import Backbone
from ipl.backbone.images import ImageFeatures, encode_files
from ipl.backbone.loading import BACKBONES, load_backbone, load_tokenizer, pick_device
from ipl.backbone.prefix import MEMORY, PrefixCache
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.store import FeatureStore

__all__ = [
    "BACKBONES",
    "MEMORY",
    "Backbone",
    "FeatureStore",
    "ImageFeatures",
    "PrefixCache",
    "Preprocessing",
    "encode_files",
    "load_backbone",
    "load_tokenizer",
    "pick_device",
]
