"""Restoring a saved run: its backbone, and the trained learner on it."""

from __future__ import annotations

from pathlib import Path

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
    """The backbone that a run was trained on; BackboneError unless it is the same.

    `source` is a name, a folder or a loaded backbone; None is the name that was saved. A run from
    the hub may name the bundled backbone or one on the hub; a folder of this machine is loaded for
    it only if the caller names it. `any_backbone` allows other weights and another preprocessing.
    """
    name = saved.backbone["name"]
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
        hint = " If its weights have moved, say where with --backbone (backbone= in Python)."
        raise BackboneError(f"{error}{'' if source else hint}") from error
    expected = {"weights": saved.backbone["weights_sha256"][:12], **saved.preprocessing}
    actual = {"weights": backbone.weights_sha256[:12], **backbone.preprocessing.as_dict()}
    for field, value in expected.items():
        if actual[field] != value and not any_backbone:
            raise BackboneError(
                f"{folder} was trained on a backbone whose {field} is {value}, but "
                f"{backbone.name!r} has {actual[field]}; give the folder of the right one with "
                "--backbone, or allow others with --any-backbone (any_backbone=True in Python)."
            )
    return backbone


def restore(saved: FitResult, backbone: Backbone) -> Learner:
    """The trained learner of a saved run; its words are embedded by the backbone."""
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
    expected, actual = (
        {name: tuple(value.shape) for name, value in tensors.items()}
        for tensors in (learner.state_dict(), saved.tensors)
    )
    if actual != expected:
        raise SavedRunError(f"prompt.safetensors contains {actual}; the prompt needs {expected}.")
    dim = backbone.feature_dim
    if saved.head is not None and saved.head.weight.shape[1] != dim:
        raise SavedRunError(
            f"the head's weights are {tuple(saved.head.weight.shape)}; the backbone has features "
            f"of {dim} numbers."
        )
    learner.load_state_dict(saved.tensors)
    for word in saved.words:
        learner.place_word(word)
    return learner
