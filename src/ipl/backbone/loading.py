"""The one entrance to a backbone: `load_backbone(name)`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import huggingface_hub
import torch

from ipl.backbone.backbone import PRECISIONS, Backbone
from ipl.backbone.families import (
    BACKBONES,
    FAMILIES,
    OPEN_CLIP_CONFIG,
    POCKET,
    POCKET_FOLDER,
    PREFIX,
    Family,
)
from ipl.backbone.preprocessing import Preprocessing
from ipl.support.errors import BackboneError, ConfigError, closest, did_you_mean, first_line
from ipl.support.hub import hub_reachable as _hub_reachable


def load_backbone(name: str = "pocket", device: str = "auto", precision: str = "fp32") -> Backbone:
    """Load a frozen CLIP, SigLIP or another model of their kind.

    Parameters
    ----------
    name : str, default="pocket"
        `pocket` for the small CLIP that comes with ipl, the folder of a Hugging Face model, a name
        on the Hugging Face hub such as `openai/clip-vit-base-patch16`, or a model of open_clip such
        as `open_clip:ViT-B-16/laion2b_s34b_b88k`.
    device : str, default="auto"
        `auto` for the first NVIDIA GPU or else the CPU, or a device that torch knows: `cpu`,
        `cuda`, `cuda:1` or `mps`.
    precision : {"fp32", "bf16", "fp16"}, default="fp32"
        Precision of the weights.

    Returns
    -------
    Backbone
        The model with its tokenizer and image transform.

    Raises
    ------
    BackboneError
        If there is no such model, it is of another family, or its files are damaged.
    ConfigError
        If the device does not exist or the precision is unknown.
    """
    if precision not in PRECISIONS:  # before anything large is fetched
        raise ConfigError(f"precision is {precision!r}; allowed are {', '.join(PRECISIONS)}.")
    torch_device = pick_device(device)
    if name.startswith(PREFIX):
        from ipl.backbone.openclip_loading import load_open_clip

        with _offline_without_hub():
            return load_open_clip(name, torch_device, precision)
    model, tokenizer, preprocessing = _load(find_model(name), name)
    backbone = resolve_name(f"ipl.backbone.{FAMILIES[model.config.model_type].backbone}")
    loaded: Backbone = backbone(name, model, tokenizer, preprocessing, torch_device, precision)
    return loaded


def find_model(name: str) -> str:
    """The folder or hub name that a user's name for a backbone means."""
    if name.startswith(PREFIX):  # open_clip knows its own names
        return name
    if name == POCKET:
        return str(POCKET_FOLDER)
    if name and os.path.isdir(Path(name)):
        if not (Path(name) / "config.json").is_file():
            if (Path(name) / OPEN_CLIP_CONFIG).is_file():
                raise BackboneError(
                    f"The folder {name} contains a model of open_clip; write {PREFIX}{name}."
                )
            raise BackboneError(
                f"The folder {name} contains no CLIP: config.json is missing. A Hugging Face model "
                "folder has config.json, model.safetensors, tokenizer and preprocessor files."
            )
        return name
    # More slashes than owner/name has, or a leading dot or slash, mean a missing folder.
    owner, _, model = name.partition("/")
    if owner and model and "/" not in model and owner[0] not in "./~":
        return name
    raise BackboneError(f"There is no backbone or folder {name!r}.{did_you_mean(name, BACKBONES)}")


def load_tokenizer(name: str = "pocket") -> Any:
    """The tokenizer of a backbone, without loading its weights."""
    if name.startswith(PREFIX):
        from ipl.backbone.openclip_loading import load_open_clip_tokenizer

        with _offline_without_hub():
            return load_open_clip_tokenizer(name)
    return read_tokenizer(find_model(name), name)


def read_tokenizer(source: str, name: str = "") -> Any:
    """The tokenizer of a folder or of a repository on the hub."""
    from transformers import AutoTokenizer, utils

    name, offline = name or source, _offline(source)
    with _explained(source, name):
        try:
            return AutoTokenizer.from_pretrained(
                source, local_files_only=offline, trust_remote_code=False
            )
        except Exception:
            # SigLIP's needs two packages that ipl does not require; errors about it vary.
            installed = utils.is_sentencepiece_available() and utils.is_protobuf_available()
            if installed or _config(source, offline).model_type != "siglip":
                raise
            raise BackboneError(
                f"The tokenizer of {name} needs packages that are not installed: "
                "`pip install sentencepiece protobuf`."
            ) from None


def pick_device(device: str) -> torch.device:
    """The torch device that auto, cpu, cuda, cuda:1 or mps stands for."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch_device = torch.device(device)
        torch.empty(1, device=torch_device).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        devices = "auto, cpu or cuda" if torch.cuda.is_available() else "auto or cpu"
        raise ConfigError(
            f"device is {device!r}, which this machine does not have; try {devices}."
        ) from None
    return torch_device


def _load(source: str, name: str) -> tuple[Any, Any, Preprocessing]:
    import transformers

    offline = _offline(source)
    with _explained(source, name):
        config = _config(source, offline)
        _check_family(config.model_type, name)
        family = FAMILIES[config.model_type]
        tokenizer = read_tokenizer(source, name)  # may lack a package: before the weights
        values = _preprocessor_config(source, offline)
        model, report = getattr(transformers, family.model).from_pretrained(
            source,
            dtype=torch.float32,
            attn_implementation="sdpa",
            use_safetensors=True,  # nothing is ever unpickled
            output_loading_info=True,
            local_files_only=offline,
        )
    unusable = sorted(str(key) for key in [*report["missing_keys"], *report["mismatched_keys"]])
    if unusable:
        raise BackboneError(f"The weights of {name} are incomplete: no usable {unusable[0]}.")
    image_size = model.config.vision_config.image_size
    return model, tokenizer, _read_preprocessing(values, image_size, family)


def _offline(source: str) -> bool:
    return Path(source).is_dir() or not _hub_reachable()


@contextmanager
def _explained(source: str, name: str) -> Iterator[None]:
    """Turns whatever transformers, the hub and safetensors raise into a sentence."""
    local = Path(source).is_dir()
    try:
        with quiet_transformers(local):
            yield
    except BackboneError:
        raise
    except Exception as error:
        raise BackboneError(_explain_failure(error, source if local else None, name)) from error


def _check_family(model_type: str, name: str) -> None:
    if model_type == "siglip2":
        raise BackboneError(
            f"{name} is a SigLIP 2 that takes images in shapes of their own (NaFlex); ipl needs "
            "one of fixed resolution, such as google/siglip2-base-patch16-224."
        )
    families = {name: family for name, family in FAMILIES.items() if family.backbone}
    if model_type not in families:
        known = ", ".join(family.title for family in families.values())
        raise BackboneError(
            f"{name} is a {model_type!r} model; ipl needs a CLIP or a model of its kind: {known}, "
            "or one of open_clip (see: ipl list backbones)."
        )


def _config(source: str, offline: bool) -> Any:
    from transformers import AutoConfig

    # Unless it is told False, transformers asks on standard input whether to run a folder's code.
    return AutoConfig.from_pretrained(source, local_files_only=offline, trust_remote_code=False)


def _explain_failure(error: Exception, folder: str | None, name: str) -> str:
    """The message for a model that could not be loaded, from a folder or the hub."""
    if "trust_remote_code" in str(error):
        return (
            f"{name} contains code of its own (auto_map in its files), which ipl never runs; use a "
            "CLIP or SigLIP whose code is in transformers."
        )
    if folder is None:
        return (
            f"Cannot load {name} from the Hugging Face hub or its local cache "
            f"({type(error).__name__}). Without network, fetch it on another machine with "
            f"`hf download {name} --local-dir DIR`, copy DIR over and name it as the backbone; "
            "pocket, which is bundled, needs no download."
            + (closest(name, BACKBONES) if name not in BACKBONES else "")
        )
    if not list(Path(folder).glob("*.safetensors")):
        return (
            f"The folder {name} has no model.safetensors, and ipl never unpickles weights. Convert "
            "them once with transformers: AutoModel.from_pretrained(DIR).save_pretrained(DIR)."
        )
    return f"The folder {name} contains no usable CLIP ({first_line(error)})."


def _preprocessor_config(source: str, offline: bool) -> dict[str, Any]:
    path = Path(source) / "preprocessor_config.json"
    if not Path(source).is_dir():
        path = Path(huggingface_hub.hf_hub_download(source, path.name, local_files_only=offline))
    if not path.is_file():
        return {}
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _read_preprocessing(values: dict[str, Any], image_size: int, family: Family) -> Preprocessing:
    size = values.get("size")
    # {"height", "width"} is the size of the whole image unless a crop follows.
    exact = "height" in size if isinstance(size, dict) else not family.crops
    squash = exact and not values.get("do_center_crop", family.crops)
    resize = _edge(size, image_size)
    crop = resize if squash else _edge(values.get("crop_size"), image_size)
    if not crop == image_size <= resize:
        raise BackboneError(
            f"preprocessor_config.json resizes to {resize} px and crops {crop} px; "
            f"the image tower takes {image_size} px."
        )
    mean, std = values.get("image_mean", family.mean), values.get("image_std", family.std)
    resample = int(values.get("resample", 3))
    return Preprocessing(resize, crop, tuple(mean), tuple(std), resample, squash)


def _edge(size: Any, default: int) -> int:
    # Written as 224, {"shortest_edge": 224} or {"height": 224, "width": 224}.
    if isinstance(size, dict):
        size = size.get("shortest_edge") or size.get("height")
    return int(size or default)


@contextmanager
def _offline_without_hub() -> Iterator[None]:
    """Lets open_clip look only in the hub's local cache if the hub cannot be reached."""
    from huggingface_hub import constants

    offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = offline or not _hub_reachable()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline


@contextmanager
def quiet_transformers(local: bool) -> Iterator[None]:
    """Silences the library's notices and, for a local folder, its progress bars."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if local:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
