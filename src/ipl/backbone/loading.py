"""The one entrance to a backbone: `load_backbone(name)`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ipl.backbone.backbone import Backbone, check_precision
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.model_files import BACKBONES, find_model
from ipl.backbone.preprocessing import Preprocessing
from ipl.backbone.siglip import SiglipBackbone
from ipl.support.errors import BackboneError, ConfigError, IplError, closest
from ipl.support.hub import hub_reachable as _hub_reachable
from ipl.support.progress import Reporter


@dataclass(frozen=True)
class Family:
    """How models of one type are loaded, and the defaults of their image preprocessor."""

    backbone: type[Backbone]
    model: str  # name of the class in transformers
    crops: bool  # resizes the short side and crops; otherwise squashes the whole image
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


FAMILIES = {
    "clip": Family(
        ClipBackbone,
        "CLIPModel",
        crops=True,
        mean=(0.48145466, 0.4578275, 0.40821073),
        std=(0.26862954, 0.26130258, 0.27577711),
    ),
    # SigLIP 2's checkpoints of fixed resolution are saved under this type as well.
    "siglip": Family(
        SiglipBackbone, "SiglipModel", crops=False, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)
    ),
}


def load_backbone(name: str = "pocket", device: str = "auto", precision: str = "fp32") -> Backbone:
    """Load a frozen CLIP or SigLIP.

    Parameters
    ----------
    name : str, default="pocket"
        `pocket` for the small CLIP that comes with ipl, the folder of a Hugging Face model, or a
        name on the Hugging Face hub such as `openai/clip-vit-base-patch16`.
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
    check_precision(precision)  # before anything large is fetched
    torch_device = pick_device(device)
    family, model, tokenizer, preprocessing = _load(find_model(name), name)
    return family.backbone(name, model, tokenizer, preprocessing, torch_device, precision)


def load_wider(backbone: Backbone, error: IplError, reporter: Reporter) -> Backbone:
    """Loads the backbone again in the next wider precision, after half precision overflowed.

    Raises `error` if there is no wider one, or if the same weights cannot be loaded again.
    """
    if backbone.precision == "fp32":
        raise error
    on_gpu = backbone.device.type == "cuda" and torch.cuda.is_bf16_supported()
    precision = "bf16" if backbone.precision == "fp16" and on_gpu else "fp32"
    try:
        wider = load_backbone(backbone.name, str(backbone.device), precision)
    except IplError:
        raise error from None
    if wider.weights_sha256 != backbone.weights_sha256:
        raise error
    reporter.warn(f"{error} Starting again in {precision}.")
    return wider


def load_tokenizer(name: str = "pocket") -> Any:
    """Returns the tokenizer of a backbone without loading its weights."""
    source = find_model(name)
    local = Path(source).is_dir()
    try:
        with quiet_transformers(local):
            return _tokenizer(source, name, local or not _hub_reachable())
    except BackboneError:
        raise
    except Exception as error:  # transformers and the hub raise many kinds
        raise BackboneError(_explain_failure(error, source if local else None, name)) from error


def pick_device(device: str) -> torch.device:
    """Returns the torch device that auto, cpu, cuda, cuda:1 or mps stands for."""
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


def _load(source: str, name: str) -> tuple[Family, Any, Any, Preprocessing]:
    """Returns the family, model, tokenizer and image transform of a folder or hub name."""
    import transformers

    local = Path(source).is_dir()
    offline = local or not _hub_reachable()
    try:
        with quiet_transformers(local):
            config = _config(source, offline)
            if config.model_type not in FAMILIES:
                raise BackboneError(
                    f"{name} is a {config.model_type!r} model; ipl needs a CLIP, or a SigLIP of "
                    "fixed resolution."
                )
            family = FAMILIES[config.model_type]
            tokenizer = _tokenizer(source, name, offline)  # may lack a package: before the weights
            values = _preprocessor_config(source, offline)
            model, report = getattr(transformers, family.model).from_pretrained(
                source,
                dtype=torch.float32,
                attn_implementation="sdpa",
                use_safetensors=True,  # nothing is ever unpickled
                output_loading_info=True,
                local_files_only=offline,
            )
    except BackboneError:
        raise
    except Exception as error:  # transformers, hub and safetensors raise many kinds
        raise BackboneError(_explain_failure(error, source if local else None, name)) from error
    unusable = sorted(str(key) for key in [*report["missing_keys"], *report["mismatched_keys"]])
    if unusable:
        raise BackboneError(f"The weights of {name} are incomplete: no usable {unusable[0]}.")
    image_size = model.config.vision_config.image_size
    return family, model, tokenizer, _read_preprocessing(values, image_size, family)


def _config(source: str, offline: bool) -> Any:
    from transformers import AutoConfig

    # Unless it is told False, transformers asks on standard input whether to run a folder's code.
    return AutoConfig.from_pretrained(source, local_files_only=offline, trust_remote_code=False)


def _tokenizer(source: str, name: str, offline: bool) -> Any:
    from transformers import AutoTokenizer
    from transformers.utils import is_protobuf_available, is_sentencepiece_available

    try:
        return AutoTokenizer.from_pretrained(
            source, local_files_only=offline, trust_remote_code=False
        )
    except Exception:
        # SigLIP's tokenizer needs two packages that ipl does not require; errors about it vary.
        packages = {
            "sentencepiece": is_sentencepiece_available(),
            "protobuf": is_protobuf_available(),
        }
        missing = " ".join(package for package, installed in packages.items() if not installed)
        config = _config(source, offline)
        if config.model_type != "siglip" or not missing:
            raise
        raise BackboneError(
            f"The tokenizer of {name} needs packages that are not installed: "
            f"`pip install {missing}`."
        ) from None


def _explain_failure(error: Exception, folder: str | None, name: str) -> str:
    """Returns the message for a model that could not be loaded, from a folder or the hub."""
    if "trust_remote_code" in str(error):
        return (
            f"{name} contains code of its own (auto_map in its files), which ipl never runs; use a "
            "CLIP or SigLIP whose code is in transformers."
        )
    if folder is None:
        return (
            f"Cannot load {name} from the Hugging Face hub or its local cache "
            f"({type(error).__name__}). Without network, fetch it on another machine with "
            f"`hf download {name} --local-dir DIR`, copy DIR over and name it as the backbone."
            + (closest(name, BACKBONES) if name not in BACKBONES else "")
        )
    if not list(Path(folder).glob("*.safetensors")):
        return (
            f"The folder {name} has no model.safetensors, and ipl never unpickles weights. Convert "
            "them once with transformers: AutoModel.from_pretrained(DIR).save_pretrained(DIR)."
        )
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"The folder {name} contains no usable CLIP: {lines[0].rstrip('.')}."


def _preprocessor_config(source: str, offline: bool) -> dict[str, Any]:
    path = Path(source) / "preprocessor_config.json"
    if not Path(source).is_dir():
        from huggingface_hub import hf_hub_download

        path = Path(hf_hub_download(source, path.name, local_files_only=offline))
    if not path.is_file():
        return {}
    values = json.loads(path.read_text(encoding="utf-8"))
    return dict(values)


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
def quiet_transformers(local: bool) -> Iterator[None]:
    """Silences the library's notices and, for a local folder, its progress bars."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    if local:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if local:
            logging.enable_progress_bar()
