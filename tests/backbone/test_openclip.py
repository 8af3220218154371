"""Models of open_clip against its own forward; loading them; what is refused, and why."""

from __future__ import annotations

import builtins
import copy
import json
import pickle
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from ipl.backbone import loading
from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone, load_tokenizer
from ipl.backbone.openclip import OpenClipBackbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.inference.exports.onnx import export_onnx
from ipl.learners.maple import MaPLe
from ipl.support.errors import BackboneError, ConfigError
from ipl.words.pool import Pool
from tests.helpers.open_clip_library import import_open_clip
from tests.helpers.open_clip_models import CONFIGS, build, write_model

pytestmark = pytest.mark.usefixtures("one_thread")

open_clip = import_open_clip()
TEXTS = ["a photo of a cat.", "a dog", "a large  Bird, on a stone"]
CAUSAL = ("vit", "quick-gelu", "resnet", "timm", "worldwide")
WITHOUT_LAYERS = ("resnet", "timm")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns a maker of saved models by kind, each made once."""
    made: dict[str, Path] = {}

    def folder(kind: str) -> Path:
        if kind not in made:
            made[kind] = write_model(tmp_path_factory.mktemp(kind), kind)
        return made[kind]

    return folder


@pytest.fixture(scope="module", params=list(CONFIGS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def backbone(kind: str, folder_of: Callable[[str], Path]) -> Backbone:
    return load_backbone(f"open_clip:{folder_of(kind)}", "cpu")


@pytest.fixture(scope="module")
def vit(folder_of: Callable[[str], Path]) -> Backbone:
    return load_backbone(f"open_clip:{folder_of('vit')}", "cpu")


@pytest.fixture(scope="module")
def resnet(folder_of: Callable[[str], Path]) -> Backbone:
    return load_backbone(f"open_clip:{folder_of('resnet')}", "cpu")


def pixels(backbone: Backbone, count: int = 2) -> torch.Tensor:
    size = backbone.preprocessing.crop
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


# -- towers ---------------------------------------------------------------------------------------


@torch.no_grad()
def test_features_are_the_librarys(
    backbone: Backbone, kind: str, folder_of: Callable[[str], Path]
) -> None:
    assert backbone.causal is (kind in CAUSAL)
    assert backbone.image_layers == (0 if kind in WITHOUT_LAYERS else 2)
    library = build(CONFIGS[kind])
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder_of(kind)}")
    texts, images = library.encode_text(tokenizer(TEXTS)), library.encode_image(pixels(backbone))
    torch.testing.assert_close(backbone.encode_texts(TEXTS), texts, atol=1e-5, rtol=0)
    torch.testing.assert_close(backbone.encode_image(pixels(backbone)), images, atol=1e-5, rtol=0)
    logits, _ = library.get_logits(pixels(backbone), tokenizer(TEXTS))
    bias = 0.0 if library.logit_bias is None else library.logit_bias
    ours = backbone.logits(images, texts)
    torch.testing.assert_close(ours, logits - bias, atol=1e-4, rtol=0)


def test_the_tokens_are_the_librarys(
    backbone: Backbone, kind: str, folder_of: Callable[[str], Path]
) -> None:
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder_of(kind)}")
    (row,) = tokenizer(TEXTS[2]).tolist()
    ids = [*backbone.opening, *backbone.tokenize(TEXTS[2]), backbone.eos]
    assert ids == row[: len(ids)]
    assert set(row[len(ids) :]) <= {backbone.tokenizer.pad_token_id}
    assert backbone.tokenize_words(["furry"]) == backbone.tokenize("furry")
    assert load_tokenizer(backbone.name).encode("furry") == backbone.tokenize("furry")
    (nearest,) = backbone.nearest_tokens(backbone.embed(backbone.tokenize("furry")))
    assert nearest == ["furry"]


def test_layer_scale_is_part_of_the_layers() -> None:
    config = copy.deepcopy(CONFIGS["vit"])
    config["text_cfg"]["ls_init_value"] = config["vision_cfg"]["ls_init_value"] = 0.5
    library, tokenizer = build(config), load_tokenizer("open_clip:ViT-B-16/openai")
    transform = replace(load_backbone("pocket", "cpu").preprocessing, crop=64)
    backbone = OpenClipBackbone("scaled", library, tokenizer, transform, config=config)
    assert backbone.causal
    with torch.no_grad():
        texts, images = open_clip.tokenize(TEXTS), pixels(backbone)
        pairs = [(backbone.encode_texts(TEXTS), library.encode_text(texts))]
        pairs += [(backbone.encode_image(images), library.encode_image(images))]
    for ours, expected in pairs:
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_image_prompts_pass_the_first_norm(vit: Backbone) -> None:
    prompts = torch.randn(3, vit.image_width, generator=torch.Generator().manual_seed(3))
    shapes: list[tuple[int, ...]] = []

    def enter(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        if layer == 0:
            normed = vit.model.visual.ln_pre(prompts)
            torch.testing.assert_close(hidden[:, -3:], normed.expand(2, -1, -1))
        shapes.append(tuple(hidden.shape))
        return hidden

    with torch.no_grad():
        prompted = vit.encode_image(pixels(vit), prompts, enter)
        assert not torch.allclose(prompted, vit.encode_image(pixels(vit)), atol=1e-3)
    assert shapes == [(2, 1 + 16 + 3, vit.image_width)] * 2


def test_a_resnet_takes_no_image_prompts(resnet: Backbone) -> None:
    with pytest.raises(ConfigError, match="takes none: it is a ResNet .* such as coop"):
        MaPLe(resnet, MaPLe.layout_for(1, 2), ["cat", "dog"], depth=2)
    with pytest.raises(BackboneError, match="takes no prompts"):
        resnet.encode_image(pixels(resnet), torch.zeros(2, 48))


# -- finding and loading --------------------------------------------------------------------------


@pytest.fixture
def tiny(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_of: Callable[[str], Path]
) -> dict[str, Any]:
    """Returns the entries of an architecture `tiny` that open_clip then knows, and its weights."""
    weights = folder_of("quick-gelu") / "open_clip_model.safetensors"
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", CONFIGS["vit"])
    entry = {"hf_hub": "nobody/quick/", "quick_gelu": True, "interpolation": "bicubic"}
    entry |= {"mean": (0.5,) * 3, "std": (0.25,) * 3, "resize_mode": "squash"}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", {"quick": entry})
    asked: list[tuple[str, str]] = []

    def download(repo_id: str, filename: str, **_: object) -> str:
        asked.append((repo_id, filename))
        return str(weights)

    monkeypatch.setattr(open_clip.pretrained, "hf_hub_download", download)
    return {"asked": asked, "weights": weights}


def test_published_weights_by_their_tag(tiny: dict[str, Any]) -> None:
    backbone = load_backbone("open_clip:tiny/quick", "cpu")
    assert tiny["asked"] == [("nobody/quick", "open_clip_model.safetensors")]
    with torch.no_grad():  # the tag says QuickGELU, the architecture does not
        expected = build(CONFIGS["quick-gelu"]).encode_text(open_clip.tokenize(TEXTS))
    torch.testing.assert_close(backbone.encode_texts(TEXTS), expected, atol=1e-5, rtol=0)
    preprocessing = backbone.preprocessing
    assert (preprocessing.mean, preprocessing.std) == ((0.5,) * 3, (0.25,) * 3)
    assert (preprocessing.squash, preprocessing.resample) == (True, Image.Resampling.BICUBIC)


def test_a_file_of_weights(tiny: dict[str, Any], tmp_path: Path) -> None:
    backbone = load_backbone(f"open_clip:tiny/{tiny['weights']}", "cpu")
    assert not tiny["asked"]
    assert backbone.preprocessing.mean == (0.5,) * 3  # as the first published weights
    other = load_backbone("open_clip:tiny/quick", "cpu")
    assert backbone.weights_sha256 == other.weights_sha256
    assert backbone.fingerprint != other.fingerprint  # another activation
    torch.save({"state_dict": load_file(tiny["weights"])}, tmp_path / "epoch.pt")
    pickled = load_backbone(f"open_clip:tiny/{tmp_path / 'epoch.pt'}", "cpu")
    assert pickled.weights_sha256 == backbone.weights_sha256


class _Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return builtins.open, (str(self.path), "w")


@pytest.mark.parametrize(
    "save", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value, 2))]
)
def test_a_pickle_of_anything_else_is_refused(
    tiny: dict[str, Any], tmp_path: Path, save: Callable[[Any, Path], Any]
) -> None:
    marker = tmp_path / "marker"
    save({"state_dict": {"a": _Evil(marker)}}, tmp_path / "evil.bin")
    with pytest.raises(BackboneError, match="not a file of plain tensors"):
        load_backbone(f"open_clip:tiny/{tmp_path / 'evil.bin'}", "cpu")
    assert not marker.exists()


def test_a_name_on_the_hub(
    monkeypatch: pytest.MonkeyPatch, folder_of: Callable[[str], Path], vit: Backbone
) -> None:
    folder = folder_of("vit")
    monkeypatch.setattr(
        open_clip.pretrained,
        "hf_hub_download",
        lambda repo_id, filename, **_: str(folder / filename),
    )
    backbone = load_backbone("open_clip:hf-hub:imageomics/bioclip", "cpu")
    assert backbone.weights_sha256 == vit.weights_sha256
    assert backbone.preprocessing == vit.preprocessing


def test_without_network_it_says_how_to_get_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_hub_reachable", lambda: False)
    for name in ("hf-hub:nobody/no-such-clip", "ViT-B-16/laion2b_s34b_b88k"):
        with pytest.raises(BackboneError, match="open_clip:DIR, .*open_clip:ARCHITECTURE/FILE"):
            load_backbone(f"open_clip:{name}", "cpu")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ViT-B-61/openai", "no model 'ViT-B-61/openai'.*'ViT-B-16/openai'"),
        ("ViT-B-16/laion2b_s34b_b88", "Did you mean 'ViT-B-16/laion2b_s34b_b88k'"),
        ("ViT-B-16", "no model 'ViT-B-16'"),
        ("./not/there", "cannot load open_clip:./not/there"),
        ("ViT-B-16//not/there.safetensors", "cannot load .*/not/there.safetensors"),
        ("coca_ViT-B-32/laion2b_s13b_b90k", "is a CoCa"),
        ("roberta-ViT-B-32/laion2b_s12b_b32k", "text model of transformers"),
    ],
)
def test_what_cannot_be_loaded(name: str, says: str) -> None:
    with pytest.raises(BackboneError, match=says):
        load_backbone(f"open_clip:{name}", "cpu")


def test_weights_that_do_not_fit(
    tiny: dict[str, Any], tmp_path: Path, folder_of: Callable[[str], Path]
) -> None:
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(tiny["weights"].read_bytes()[:5000])
    for file in (cut, folder_of("resnet") / "open_clip_model.safetensors"):
        with pytest.raises(BackboneError, match="open_clip cannot load open_clip:tiny"):
            load_backbone(f"open_clip:tiny/{file}", "cpu")


@pytest.mark.parametrize("config", ["{", '{"model_cfg": 3}', {"model_cfg": CONFIGS["vit"]}])
def test_a_damaged_folder_or_one_without_weights(
    tmp_path: Path, config: str | dict[str, Any]
) -> None:
    text = config if isinstance(config, str) else json.dumps(config)
    (tmp_path / "open_clip_config.json").write_text(text)
    with pytest.raises(BackboneError, match=str(tmp_path)):
        load_backbone(f"open_clip:{tmp_path}", "cpu")
    with pytest.raises(BackboneError, match=f"write open_clip:{tmp_path}"):
        load_backbone(str(tmp_path), "cpu")


def test_an_unknown_transform_is_refused(tmp_path: Path, folder_of: Callable[[str], Path]) -> None:
    shutil.copytree(folder_of("vit"), tmp_path / "model")
    file = tmp_path / "model" / "open_clip_config.json"
    values = json.loads(file.read_text())
    values["preprocess_cfg"]["resize_mode"] = "longest"
    file.write_text(json.dumps(values))
    with pytest.raises(BackboneError, match="prepares images in a way that ipl does not know"):
        load_backbone(f"open_clip:{tmp_path / 'model'}", "cpu")


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(BackboneError, match=r"'ipl\[open_clip\]'"):
        load_backbone("open_clip:ViT-B-16/openai", "cpu")


# -- a whole run ----------------------------------------------------------------------------------


def test_onnx_of_a_vision_transformer(
    vit: Backbone, scenes: Dataset, pool: Pool, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    few = scenes.only(range(3), "three scenes")
    classifier = PromptClassifier(
        vit, "maple", 1, shots=1, pool=pool, epochs=1, interval=1, cache=False, depth=2
    ).fit(few)
    content = export_onnx(classifier, tmp_path / "onnx")
    assert content["checked"]["fp32"]["largest_difference"] < 1e-4
