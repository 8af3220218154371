"""From a learner to a saved prompt, and back to a learner on its backbone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.datasets.dataset import check_class_names, read_alike
from ipl.learners.learner import CLASS_TEMPLATE, Learner
from ipl.learners.registry import known_learners, learner_class
from ipl.saving.format import SavedPrompt
from ipl.support.errors import BackboneError, SavedRunError
from ipl.words.selection import Selection


def capture(
    learner: Learner,
    training: dict[str, Any],
    results: dict[str, Any],
    selection: Selection | None,
) -> SavedPrompt:
    """Returns what is saved of a learner and of how it was made."""
    backbone = learner.backbone
    return SavedPrompt(
        learner=learner.name,
        prompt=learner.layout.readable(learner.words),
        words=learner.words,
        placeholder=learner.placeholder,
        backbone={
            "name": backbone.name,
            "weights_sha256": backbone.weights_sha256,
            "precision": backbone.precision,
        },
        preprocessing=backbone.preprocessing.as_dict(),
        classes=learner.prompts.class_names,
        training=training,
        results=results,
        selection=selection.as_dict() if selection else None,
        ipl_version=__version__,
        alike=read_alike(learner.prompts.class_names),
        tensors=dict(learner.state_dict()),
    )


def find_backbone(
    folder: Path,
    saved: SavedPrompt,
    where: str | Backbone | None,
    device: str,
    precision: str,
    any_backbone: bool = False,
) -> Backbone:
    """Returns the backbone that a saved prompt was made for, and no other unless any will do.

    `where` says where it is now: a name, a folder, or a loaded backbone; None is as saved.
    """
    _check_learner(folder, saved)
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


def _check_learner(folder: Path, saved: SavedPrompt) -> None:
    """Raises SavedRunError if the learner of a prompt is not known here."""
    if saved.learner not in known_learners():
        raise SavedRunError(
            f"{folder} was made with the learner {saved.learner!r}, which is not known here; "
            "import it first, or install the package that announces it (entry point ipl.learners)."
        )


def restore(saved: SavedPrompt, backbone: Backbone) -> Learner:
    """Returns the learner with its vectors and, embedded anew, its words."""
    check_class_names(saved.classes, saved.alike)
    learner = learner_class(saved.learner)(
        backbone,
        saved.layout,
        saved.classes,
        placeholder=saved.placeholder,
        depth=int(saved.training.get("depth", 1)),
        class_template=str(saved.training.get("class_template", CLASS_TEMPLATE)),
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
