"""The families of backbones: what each allows, and which weights are on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from ipl.support.hub import is_on_hub

OPEN_CLIP = "open_clip"
PREFIX = f"{OPEN_CLIP}:"
HUB, LOCAL = "hf-hub:", "local-dir:"  # as open_clip writes them
POCKET = "pocket"
POCKET_FOLDER = Path(__file__).parent / POCKET
RECOMMENDED, DOWNLOAD = "openai/clip-vit-base-patch16", "600 MB"
CACHED, WHOLE = "prefix cache", "whole prompts"  # how the search runs candidates
EXPORTS = ("text", "classifier", "onnx")
OPEN_CLIP_CONFIG = "open_clip_config.json"
OPEN_CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Family:
    """What is known of all models of a family before one is loaded."""

    title: str
    examples: tuple[str, ...]  # names that `--backbone` takes
    search: str  # how candidate words are run
    image_prompts: str  # which models take learners that prompt the image tower
    exports: tuple[str, ...]  # what `ipl export --to` writes
    model: str = ""  # the class in transformers
    backbone: str = ""  # the class in ipl.backbone that runs it
    # Without a preprocessor file: whether images are resized at the short side and cropped, or
    # squashed as a whole, and the statistics of the pixels.
    crops: bool = True
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    needs: str = ""  # what has to be installed beside ipl


# By the model type in config.json; open_clip's models have none.
FAMILIES = {
    "clip": Family(
        "CLIP, MetaCLIP",
        (
            POCKET,
            "openai/clip-vit-base-patch16",
            "openai/clip-vit-base-patch32",
            "openai/clip-vit-large-patch14",
            "openai/clip-vit-large-patch14-336",
            "facebook/metaclip-b16-400m",
        ),
        CACHED,
        "yes",
        (*EXPORTS, "transformers"),
        "CLIPModel",
        "clip.ClipBackbone",
    ),
    "metaclip_2": Family(
        "MetaCLIP 2",
        ("facebook/metaclip-2-worldwide-huge-quickgelu",),
        CACHED,
        "yes",
        EXPORTS,
        "MetaClip2Model",
        "clip.ClipBackbone",
    ),
    # SigLIP 2's checkpoints of fixed resolution are saved under this type as well.
    "siglip": Family(
        "SigLIP, SigLIP 2",
        ("google/siglip-base-patch16-224", "google/siglip2-base-patch16-224"),
        WHOLE,
        "yes",
        EXPORTS,
        "SiglipModel",
        "siglip.SiglipBackbone",
        crops=False,
        mean=HALF,
        std=HALF,
        needs="sentencepiece protobuf",
    ),
    OPEN_CLIP: Family(
        "open_clip",
        (
            "open_clip:ViT-B-16/laion2b_s34b_b88k",
            "open_clip:RN50/openai",
            "open_clip:hf-hub:imageomics/bioclip",
        ),
        f"{CACHED} (causal text towers)",
        "vision transformers",
        EXPORTS,
        needs="ipl[open_clip]",
    ),
}
# Names to suggest.
BACKBONES = tuple(name for family in FAMILIES.values() for name in family.examples)


def open_clip_source(name: str) -> tuple[str, str | None]:
    """What open_clip calls a model and its weights.

    `open_clip:ARCHITECTURE/WEIGHTS` names weights by a tag or a file; a folder and a name on the
    hub have weights of their own.
    """
    rest = name.removeprefix(PREFIX)
    if rest.startswith(HUB):
        return rest, None
    if rest.startswith(LOCAL):
        return LOCAL + os.path.expanduser(rest.removeprefix(LOCAL)), None
    if rest[:1] in (".", "/", "~") or os.path.exists(Path(rest, OPEN_CLIP_CONFIG)):
        return LOCAL + os.path.expanduser(rest), None
    architecture, _, weights = rest.partition("/")
    if "/" in weights or "." in weights:  # a file, as no tag has one
        weights = os.path.expanduser(weights)
    return architecture, weights or None


def is_local(name: str) -> bool:
    """Whether the name of a backbone means files of this machine, not published ones."""
    if name.startswith(PREFIX):
        source, weights = open_clip_source(name)
        return source.startswith(LOCAL) or "/" in (weights or "") or "." in (weights or "")
    return name != POCKET and not is_on_hub(name)


@dataclass(frozen=True)
class FoundWeights:
    """A model whose weights are on this machine; `name` is what `--backbone` takes."""

    name: str
    family: str
    folder: Path
    bytes: int


def find_weights() -> Iterator[FoundWeights]:
    """Yields PocketCLIP and the models of known families in the Hugging Face cache."""
    yield FoundWeights(POCKET, "clip", POCKET_FOLDER, _size(POCKET_FOLDER))
    for model in sorted(hub_cache().glob("models--*--*")):
        name = "/".join(model.name.split("--", 2)[1:])
        for snapshot in sorted(model.glob("snapshots/*")):
            family = _family_of(snapshot)
            if family == OPEN_CLIP:
                name = f"{PREFIX}{HUB}{name}"
            if family:
                yield FoundWeights(name, family, snapshot, _size(snapshot))
                break


def suggest_backbone(name: str) -> str:
    """What to tell a user of the bundled backbone beside its numbers; "" for other backbones."""
    if name != POCKET:
        return ""
    here = any(found.name == RECOMMENDED for found in find_weights())
    where = "already on this machine" if here else "not on this machine yet, downloaded once"
    return (
        f"The bundled PocketCLIP is for trying things out: --backbone {RECOMMENDED} takes a real "
        f"CLIP ({DOWNLOAD}, {where})."
    )


def hub_cache() -> Path:
    """Where models of the Hugging Face hub are kept."""
    return Path(constants.HF_HUB_CACHE)


def _family_of(folder: Path) -> str:
    """The family of a model folder with weights in it, or nothing."""
    # transformers' file has the usual name; open_clip's loads only with its config.
    if any(folder.glob("model*.safetensors")):
        try:
            values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            model_type = values.get("model_type")
        except (OSError, ValueError, AttributeError):
            model_type = None
        if model_type in FAMILIES:
            return str(model_type)
    weights = any((folder / name).is_file() for name in OPEN_CLIP_WEIGHTS)
    return OPEN_CLIP if weights and (folder / OPEN_CLIP_CONFIG).is_file() else ""


def _size(folder: Path) -> int:
    weights = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    return sum(path.stat().st_size for path in weights if path.is_file())
