"""Finding and loading models of open_clip: `open_clip:ARCHITECTURE/WEIGHTS`.

open_clip is imported only here, and only when a backbone asks for it. It builds the towers and
reads the weights; its image transforms, which need torchvision, are not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from ipl.backbone.families import (
    CLIP_MEAN,
    CLIP_STD,
    OPEN_CLIP_CONFIG,
    OPEN_CLIP_WEIGHTS,
    OpenClipName,
    read_open_clip_name,
)
from ipl.backbone.openclip import OpenClipBackbone, OpenClipTokenizer
from ipl.backbone.preprocessing import Preprocessing
from ipl.support.errors import BackboneError, closest, did_you_mean

INSTALL = "pip install 'ipl[open_clip]'"
SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")
RESAMPLE = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}
STATISTICS = {"mean": CLIP_MEAN, "std": CLIP_STD}  # of pixels, where nothing else is stated
LoadTokenizer = Callable[[str], Any]  # from a folder or hub name to a tokenizer of transformers


@dataclass(frozen=True)
class OpenClipSource:
    """An architecture, how its images are prepared, and where its weights come from."""

    config: dict[str, Any]  # embed_dim, text_cfg, vision_cfg, ...
    preprocessing: dict[str, Any]
    weights: Callable[[], Path]  # fetches them if they are on the hub
    folder: Path | None = None  # may have a tokenizer


def load_open_clip(
    name: str, device: torch.device, precision: str, offline: bool, tokenizer: LoadTokenizer
) -> OpenClipBackbone:
    """Returns the backbone that a name beginning with `open_clip:` means."""
    open_clip = import_open_clip()
    source = _find(name, open_clip, offline)
    _check_text_tower(name, source.config)
    words = _tokenizer(source, open_clip, tokenizer)  # may lack a package: before the weights
    model = _build(name, source.config, open_clip)
    preprocessing = _preprocessing(name, source.preprocessing, model.visual.image_size)
    _load_weights(name, model, source.weights(), open_clip)
    return OpenClipBackbone(name, model, words, preprocessing, device, precision, source.config)


def load_open_clip_tokenizer(
    name: str, offline: bool, tokenizer: LoadTokenizer
) -> OpenClipTokenizer:
    """Returns the tokenizer of a model of open_clip without loading its weights."""
    open_clip = import_open_clip()
    return _tokenizer(_find(name, open_clip, offline), open_clip, tokenizer)


def import_open_clip() -> Any:
    """Returns the package open_clip; raises BackboneError if it cannot be imported."""
    try:
        import open_clip
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torchvision":
            raise BackboneError(
                f"Backbones of open_clip need the package {error.name}; install it with: {INSTALL}."
            ) from error
        raise BackboneError(
            "open_clip needs the package torchvision, which is not installed; install the one that "
            f"belongs to torch {torch.__version__}."
        ) from error
    except Exception as error:  # a torchvision of another torch raises several kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise BackboneError(
            f"open_clip cannot be imported ({lines[0].rstrip('.')}); usually torchvision does not "
            f"belong to torch {torch.__version__}."
        ) from error
    return open_clip


# -- from a name to an architecture and a file ----------------------------------------------------


def _find(name: str, open_clip: Any, offline: bool) -> OpenClipSource:
    parts = read_open_clip_name(name)
    if parts.folder:
        return _from_folder(name, Path(parts.folder).expanduser())
    if parts.hub:
        return _from_hub(parts.hub, offline)
    config = open_clip.get_model_config(parts.architecture)
    if config is None:
        close = closest(parts.architecture, open_clip.list_models())
        raise BackboneError(
            f"open_clip has no architecture {parts.architecture!r}."
            f"{close or ' open_clip.list_models() has all of them.'}"
        )
    if parts.file:
        file = Path(parts.file).expanduser()
        return OpenClipSource(config, _usual_preprocessing(parts, open_clip), lambda: file)
    return _from_tag(name, parts, config, open_clip, offline)


def _from_folder(name: str, folder: Path) -> OpenClipSource:
    path = folder / OPEN_CLIP_CONFIG
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        config, preprocessing = dict(values["model_cfg"]), dict(values.get("preprocess_cfg", {}))
        complete = {"embed_dim", "text_cfg", "vision_cfg"} <= set(config)
    except FileNotFoundError:
        raise BackboneError(f"{name} is no folder with a file {path.name}.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        complete = False
    if not complete:
        raise BackboneError(f"{path} does not describe a model of open_clip.")

    def weights() -> Path:
        files = [file for file in sorted(folder.iterdir()) if file.suffix in SUFFIXES]
        known = [file for file in files if file.name in OPEN_CLIP_WEIGHTS]
        if not files:
            raise BackboneError(f"{folder} has no weights beside {path.name}.")
        return (known or sorted(files, key=lambda file: file.suffix != ".safetensors"))[0]

    return OpenClipSource(config, preprocessing, weights, folder)


def _from_hub(repository: str, offline: bool) -> OpenClipSource:
    config = _fetch(repository, [OPEN_CLIP_CONFIG], offline)
    source = _from_folder(repository, config.parent)
    return OpenClipSource(
        source.config,
        source.preprocessing,
        lambda: _fetch(repository, OPEN_CLIP_WEIGHTS, offline),
        source.folder,
    )


def _from_tag(
    name: str, parts: OpenClipName, config: dict[str, Any], open_clip: Any, offline: bool
) -> OpenClipSource:
    tags = open_clip.list_pretrained_tags_by_model(parts.architecture)
    if not parts.tag:
        raise BackboneError(
            f"{name} names no weights; add a tag of open_clip or a file, such as "
            f"{name.rstrip('/')}/{tags[0] if tags else '/path/to/weights.safetensors'}."
        )
    entry = open_clip.get_pretrained_cfg(parts.architecture, parts.tag)
    if not entry:
        raise BackboneError(
            f"open_clip has no weights {parts.tag!r} of {parts.architecture}."
            f"{did_you_mean(parts.tag, tags)}"
        )
    if entry.get("quick_gelu"):  # open_clip itself only warns, and computes something else
        config = {**config, "quick_gelu": True}

    def weights() -> Path:
        if not entry.get("hf_hub"):
            try:
                return Path(open_clip.download_pretrained_from_url(entry["url"]))
            except Exception as error:  # urllib raises many kinds
                raise BackboneError(
                    f"Cannot download {entry['url']} ({type(error).__name__})."
                ) from error
        repository, _, file = entry["hf_hub"].rpartition("/")
        safe = f"{Path(file).stem}.safetensors"
        files = (safe, file) if file else OPEN_CLIP_WEIGHTS
        return _fetch(repository, files, offline)

    return OpenClipSource(config, entry, weights)


def _usual_preprocessing(parts: OpenClipName, open_clip: Any) -> dict[str, Any]:
    """Returns what all published weights of an architecture agree on, for a file of weights."""
    tags = open_clip.list_pretrained_tags_by_model(parts.architecture)
    entries = [open_clip.get_pretrained_cfg(parts.architecture, tag) for tag in tags]
    keys = ("mean", "std", "interpolation", "resize_mode")
    first = {key: entries[0][key] for key in keys if key in entries[0]} if entries else {}
    return {
        key: value
        for key, value in first.items()
        if all(entry.get(key) == value for entry in entries)
    }


def _fetch(repository: str, files: tuple[str, ...] | list[str], offline: bool) -> Path:
    """Returns the first of some files that a repository of the hub, or its cache, has."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    failure: Exception | None = None
    for file in files:
        try:
            return Path(hf_hub_download(repository, file, local_files_only=offline))
        except Exception as error:  # the hub's client raises many kinds
            missing = isinstance(error, EntryNotFoundError)
            failure = failure if failure and missing else error
    raise BackboneError(
        f"Cannot load {files[0]} of {repository} from the Hugging Face hub or its local cache "
        f"({type(failure).__name__}). Without network, fetch the weights on another machine with "
        f"`hf download {repository} --local-dir DIR`, copy DIR over and name it as "
        "open_clip:DIR, or its file of weights as open_clip:ARCHITECTURE/FILE."
    ) from failure


# -- tokenizer, towers, weights -------------------------------------------------------------------


def _tokenizer(source: OpenClipSource, open_clip: Any, load: LoadTokenizer) -> OpenClipTokenizer:
    text = source.config["text_cfg"]
    options = dict(text.get("tokenizer_kwargs") or {})
    hub_name = text.get("hf_tokenizer_name")
    if not hub_name:
        simple = open_clip.SimpleTokenizer(**options)
        start, end = simple.sot_token_id, simple.eot_token_id
        return OpenClipTokenizer(
            simple.encode, simple.encoder, (start,), end, 0, simple.all_special_ids
        )
    folder = source.folder
    own = folder is not None and any(
        (folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json")
    )
    words = load(str(folder) if own else hub_name)
    clean = open_clip.tokenizer.get_clean_fn(options.get("clean", "whitespace"))
    *opening, end = words("")["input_ids"]
    if options.get("strip_sep_token"):  # CLIPA writes 0 in its place
        end = 0

    def tokenize(text: str) -> list[int]:
        return list(words(clean(text), add_special_tokens=False, verbose=False)["input_ids"])

    special = {*words.all_special_ids, end}
    padding = 0 if words.pad_token_id is None else int(words.pad_token_id)
    return OpenClipTokenizer(
        tokenize, words.get_vocab(), tuple(opening), end, padding, sorted(special)
    )


def _check_text_tower(name: str, config: dict[str, Any]) -> None:
    """Raises BackboneError if the text tower does not take prompts as embeddings."""
    text = config["text_cfg"]
    reason = ""
    if "multimodal_cfg" in config or text.get("embed_cls"):
        reason = "a CoCa, which reads the text at a token of its own"
    elif text.get("hf_model_name"):
        reason = f"built on the text model {text['hf_model_name']}"
    if reason:
        raise BackboneError(
            f"{name} is {reason}; ipl needs a text tower of CLIP's or SigLIP's kind."
        )


def _build(name: str, config: dict[str, Any], open_clip: Any) -> Any:
    """Returns the model without its weights."""
    values = json.loads(json.dumps(config))  # open_clip keeps what it is given
    custom = values.pop("custom_text", False)
    if values["vision_cfg"].get("timm_model_name"):
        values["vision_cfg"]["timm_model_pretrained"] = False
    try:
        return (open_clip.CustomTextCLIP if custom else open_clip.CLIP)(**values)
    except Exception as error:  # an architecture that this open_clip or timm does not know
        raise BackboneError(f"open_clip cannot build {name}: {_first_line(error)}.") from error


def _preprocessing(name: str, values: dict[str, Any], image_size: Any) -> Preprocessing:
    sizes = image_size if isinstance(image_size, tuple | list) else (image_size, image_size)
    mode, interpolation = values.get("resize_mode"), values.get("interpolation") or "bicubic"
    if sizes[0] != sizes[1] or mode == "longest" or interpolation not in RESAMPLE:
        raise BackboneError(
            f"{name} prepares images in a way that ipl does not know: size {tuple(sizes)}, "
            f"resize mode {mode}, {interpolation} interpolation."
        )
    size = int(sizes[0])
    mean, std = (values.get(key) or default for key, default in STATISTICS.items())
    mean, std = tuple(map(float, mean)), tuple(map(float, std))
    return Preprocessing(size, size, mean, std, RESAMPLE[interpolation], mode == "squash")


def _load_weights(name: str, model: Any, path: Path, open_clip: Any) -> None:
    if not path.is_file():
        raise BackboneError(f"{name} names the weights {path}, which do not exist.")
    if path.suffix not in SUFFIXES:
        raise BackboneError(f"The weights {path} must be a file of {', '.join(SUFFIXES)}.")
    try:
        # weights_only: torch reads tensors and nothing that could run code.
        open_clip.load_checkpoint(model, str(path), weights_only=True)
    except Exception as error:  # torch, pickle and safetensors raise many kinds
        if path.suffix != ".safetensors" and "state_dict" not in str(error):
            raise BackboneError(
                f"{path} is not a file of plain tensors, and ipl unpickles nothing else; save the "
                "weights as safetensors."
            ) from error
        raise BackboneError(
            f"The weights {path} do not fit {name}: {_first_line(error)}."
        ) from error


def _first_line(error: Exception) -> str:
    """Returns what is wrong in one line; torch writes it below a heading."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[min(1, len(lines) - 1)] if lines else type(error).__name__
    return line[:200].rstrip(".")
