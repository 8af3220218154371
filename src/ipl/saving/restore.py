"""From a saved run back to a learner on its backbone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.datasets.dataset import check_class_names
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class
from ipl.support.errors import BackboneError, SavedRunError
from ipl.training.result import FitResult


def find_backbone(
    folder: Path,
    saved: FitResult,
    where: str | Backbone | None,
    device: str,
    precision: str,
    any_backbone: bool = False,
) -> Backbone:
    """Returns the backbone that a saved prompt was made for, and no other unless any will do.

    `where` says where it is now: a name, a folder, or a loaded backbone; None is as saved.
    """
    name, made_for = saved.backbone["name"], saved.backbone["weights_sha256"]
    try:
        backbone = (
            where
            if isinstance(where, Backbone)
            else load_backbone(where or name, device, precision)
        )
    except BackboneError as error:
        hint = (
            ""
            if where
            else " If the weights of this run are elsewhere now, say where with --backbone "
            "(backbone= in Python)."
        )
        raise BackboneError(f"{error}{hint}") from error
    if any_backbone:
        return backbone
    if backbone.weights_sha256 != made_for:
        raise BackboneError(
            f"{folder} was made for the backbone {name!r} with weights {made_for[:12]}, but "
            f"{backbone.name!r} has {backbone.weights_sha256[:12]}; name the folder of the right "
            "weights, or allow others with --any-backbone (any_backbone=True in Python)."
        )
    here = backbone.preprocessing.as_dict()
    for field, value in saved.preprocessing.items():
        if here.get(field, False) != value:
            raise BackboneError(
                f"{folder} was made with images whose {field} is {value}, but {backbone.name!r} "
                f"has {here.get(field)}; name a folder with the right preprocessor_config.json, or "
                "allow others with --any-backbone (any_backbone=True in Python)."
            )
    return backbone


def restore(saved: FitResult, backbone: Backbone) -> Learner:
    """Returns the learner with its vectors and, embedded anew, its words."""
    check_class_names(saved.classes, saved.alike)
    learner = learner_class(saved.config.learner)(
        backbone,
        saved.layout,
        saved.classes,
        placeholder=saved.config.placeholder,
        depth=saved.recipe.depth,
        class_template=saved.config.class_template,
    )
    expected, found = _shapes(learner.state_dict()), _shapes(saved.tensors)
    if found != expected:
        raise SavedRunError(f"prompt.safetensors holds {found}; the prompt needs {expected}.")
    learner.load_state_dict(saved.tensors)
    for word in saved.words:
        learner.place_word(word)
    return learner


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Returns what each tensor is, as in `float32 (6, 192)`."""
    kinds = {name: str(value.dtype).removeprefix("torch.") for name, value in tensors.items()}
    return {name: f"{kinds[name]} {tuple(value.shape)}" for name, value in tensors.items()}
