"""Restoring a saved run: its backbone, and the trained learner on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.families import is_local
from ipl.backbone.loading import load_backbone
from ipl.datasets.dataset import check_class_names
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class
from ipl.support.errors import BackboneError, SavedRunError, brief
from ipl.support.hub import is_downloaded
from ipl.training.result import FitResult


def find_backbone(
    folder: Path,
    saved: FitResult,
    source: str | Backbone | None,
    device: str,
    precision: str,
    any_backbone: bool = False,
) -> Backbone:
    """Returns the backbone that a run was trained on, and checks that it is the same.

    A run from the hub may name the bundled backbone or one on the hub; a folder of this machine is
    loaded for it only if the caller names it.

    Parameters
    ----------
    folder : Path
        The folder of the run, for messages.
    saved : FitResult
        The saved run.
    source : str, Backbone or None
        A name, a folder or a loaded backbone; None is the name that was saved.
    device : str
        auto, cpu, cuda, cuda:1, mps.
    precision : str
        fp32, bf16 or fp16.
    any_backbone : bool, default False
        Whether other weights and another preprocessing are allowed.

    Returns
    -------
    Backbone
        The loaded backbone.

    Raises
    ------
    BackboneError
        If the backbone cannot be loaded, or is not the same.
    """
    name, expected_sha256 = saved.backbone["name"], saved.backbone["weights_sha256"]
    if source is None and is_local(name) and is_downloaded(folder):
        raise BackboneError(
            f"{folder} comes from the hub and names the folder {brief(name)} as its backbone; "
            "if you trust that folder, or have the weights elsewhere, give it with --backbone "
            "(backbone= in Python)."
        )
    try:
        backbone = (
            source
            if isinstance(source, Backbone)
            else load_backbone(source or name, device, precision)
        )
    except BackboneError as error:
        hint = (
            ""
            if source
            else " If the weights of this run have moved, give their new location with --backbone "
            "(backbone= in Python)."
        )
        raise BackboneError(f"{error}{hint}") from error
    if any_backbone:
        return backbone
    if backbone.weights_sha256 != expected_sha256:
        raise BackboneError(
            f"{folder} was trained on the backbone {name!r} with weights {expected_sha256[:12]}, "
            f"but {backbone.name!r} has {backbone.weights_sha256[:12]}; give the folder of the "
            "right weights, or allow others with --any-backbone (any_backbone=True in Python)."
        )
    preprocessing = backbone.preprocessing.as_dict()
    for field, value in saved.preprocessing.items():
        if preprocessing[field] != value:
            raise BackboneError(
                f"{folder} was trained on images whose {field} is {value}, but {backbone.name!r} "
                f"has {preprocessing[field]}; give a folder with the right "
                "preprocessor_config.json, or allow others with --any-backbone "
                "(any_backbone=True in Python)."
            )
    return backbone


def restore(saved: FitResult, backbone: Backbone) -> Learner:
    """Returns the trained learner of a saved run; its words are embedded by the backbone."""
    check_class_names(saved.classes, saved.alike)
    sizes = [len(backbone.tokenize(word)) for word in saved.words]
    learner = learner_class(saved.config.learner)(
        backbone,
        saved.layout.with_slot_sizes(sizes),
        saved.classes,
        placeholder=saved.config.placeholder,
        depth=saved.hyperparameters.depth,
        class_template=saved.config.class_template,
    )
    expected, actual = _shapes(learner.state_dict()), _shapes(saved.tensors)
    if actual != expected:
        raise SavedRunError(f"prompt.safetensors contains {actual}; the prompt needs {expected}.")
    learner.load_state_dict(saved.tensors)
    for word in saved.words:
        learner.place_word(word)
    return learner


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Returns the type and shape of each tensor, such as `float32 (6, 192)`."""
    kinds = {name: str(value.dtype).removeprefix("torch.") for name, value in tensors.items()}
    return {name: f"{kinds[name]} {tuple(value.shape)}" for name, value in tensors.items()}
