"""Loading models of open_clip with its own factory: `open_clip:ARCHITECTURE/WEIGHTS`.

open_clip is imported only here, and only when a backbone asks for it. It builds the towers and
reads the weights; its image transforms, which need torchvision, are not used.
"""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

import torch
from PIL import Image

from ipl.backbone.families import HUB, LOCAL, PREFIX, is_local, open_clip_source
from ipl.backbone.loading import read_tokenizer
from ipl.backbone.openclip import OpenClipBackbone, OpenClipTokenizer
from ipl.backbone.preprocessing import Preprocessing
from ipl.support.errors import BackboneError, did_you_mean, first_line

INSTALL = "pip install 'ipl[open_clip]'"
RESAMPLE = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def load_open_clip(name: str, device: torch.device, precision: str) -> OpenClipBackbone:
    """The backbone that a name beginning with `open_clip:` means."""
    open_clip = import_open_clip()
    source, weights = open_clip_source(name)
    config = _config(name, open_clip)
    published = open_clip.get_pretrained_cfg(source, weights) if weights else {}
    if published.get("quick_gelu"):  # open_clip itself only warns, and computes something else
        config = {**config, "quick_gelu": True}
    if weights and not published:  # a file: images are prepared as for the first published weights
        tags = open_clip.list_pretrained_tags_by_model(source)
        published = open_clip.get_pretrained_cfg(source, tags[0]) if tags else {}
    tokenizer = _tokenizer(source, config, open_clip)  # may lack a package: before the weights
    try:
        model = open_clip.create_model(
            source,
            weights,
            force_quick_gelu=bool(config.get("quick_gelu")),
            force_preprocess_cfg={**published, "size": None},  # None: that of the image tower
            require_pretrained=True,
            weights_only=True,  # torch reads tensors and nothing that could run code
        )
    except Exception as error:  # open_clip, torch and the hub raise many kinds
        raise BackboneError(_explain_failure(error, name)) from error
    preprocessing = _preprocessing(name, model.visual.preprocess_cfg)
    return OpenClipBackbone(name, model, tokenizer, preprocessing, device, precision, config=config)


def load_open_clip_tokenizer(name: str) -> OpenClipTokenizer:
    open_clip = import_open_clip()
    return _tokenizer(open_clip_source(name)[0], _config(name, open_clip), open_clip)


def import_open_clip() -> Any:
    try:
        import open_clip
    except Exception as error:  # a torchvision of another torch raises several kinds
        raise BackboneError(
            f"open_clip cannot be imported ({first_line(error)}). Install it with: {INSTALL}; "
            f"its torchvision must be the one that belongs to torch {torch.__version__}."
        ) from error
    return open_clip


def _config(name: str, open_clip: Any) -> dict[str, Any]:
    """The architecture; raises BackboneError if its towers cannot be used."""
    source, weights = open_clip_source(name)
    try:
        config = open_clip.get_model_config(source)
        text = {} if config is None else dict(config["text_cfg"])
    except Exception as error:  # of a file that is damaged or missing, or of the hub
        raise BackboneError(_explain_failure(error, name)) from error
    published = weights and open_clip.get_pretrained_cfg(source, weights)
    if config is None or not (published or is_local(name) or source.startswith(HUB)):
        asked, known = name.removeprefix(PREFIX), map("/".join, open_clip.list_pretrained())
        raise BackboneError(
            f"open_clip has no model {asked!r}; name an architecture with published weights or a "
            f"file, as in {PREFIX}ViT-B-16/openai.{did_you_mean(asked, known)}"
        )
    if "multimodal_cfg" in config or text.get("embed_cls") or text.get("hf_model_name"):
        raise BackboneError(
            f"{name} is a CoCa or has a text model of transformers; ipl needs a text tower of "
            "CLIP's or SigLIP's kind."
        )
    return dict(config)


def _tokenizer(source: str, config: dict[str, Any], open_clip: Any) -> OpenClipTokenizer:
    """The tokenizer, which open_clip would load with code of the folder if it has some."""
    text = config["text_cfg"]
    options = dict(text.get("tokenizer_kwargs") or {})
    hub_name = text.get("hf_tokenizer_name")
    if not hub_name:
        own = open_clip.SimpleTokenizer(**options)
        opening, special = (own.sot_token_id,), own.all_special_ids
        return OpenClipTokenizer(own.encode, own.encoder, opening, own.eot_token_id, 0, special)
    words = read_tokenizer(source.removeprefix(LOCAL) if source.startswith(LOCAL) else hub_name)
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


def _preprocessing(name: str, values: dict[str, Any]) -> Preprocessing:
    size, mode, interpolation = values["size"], values["resize_mode"], values["interpolation"]
    height, width = size if isinstance(size, tuple | list) else (size, size)
    if height != width or mode == "longest" or interpolation not in RESAMPLE:
        raise BackboneError(
            f"{name} prepares images in a way that ipl does not know: size {height} x {width}, "
            f"resize mode {mode}, {interpolation} interpolation."
        )
    mean, std = values["mean"], values["std"]
    return Preprocessing(
        height, height, tuple(mean), tuple(std), RESAMPLE[interpolation], mode == "squash"
    )


def _explain_failure(error: Exception, name: str) -> str:
    """The message for a model that could not be loaded."""
    if isinstance(error, UnpicklingError):
        return (
            f"The weights of {name} are not a file of plain tensors, and ipl unpickles nothing "
            "else; save them as safetensors."
        )
    message = f"open_clip cannot load {name}: {first_line(error)}."
    if is_local(name):
        return message
    return (
        f"{message} Without network, fetch the weights on another machine, copy them over and name "
        f"their folder as {PREFIX}DIR, or their file as {PREFIX}ARCHITECTURE/FILE."
    )
