"""How a run was made: settings, times, versions, and the command that makes it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ipl._version import __version__
from ipl.explain.loaded_run import LoadedRun
from ipl.learners.registry import learner_class
from ipl.saving.format import SavedPrompt
from ipl.support.errors import IplError
from ipl.words.pool import Pool

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pillow")
# What `ipl fit` sets and a run keeps, with the option's name.
OPTIONS = {"epochs": "--epochs", "interval": "--interval", "batch": "--batch", "lr": "--lr"}
OPTIONS |= {"m": "--m", "depth": "--depth"}
DEFAULTS = {"shots": 16, "views": 8, "class_template": "a photo of a {}."}
CHOICE = {"lambda_": 0.1, "preset": "paper", "word_embedding": "text", "search": "exact"}


@dataclass(frozen=True)
class Provenance:
    """Plain rows of (what, value); the command line, if there is one, and what it cannot say."""

    settings: tuple[tuple[str, str], ...]
    times: tuple[tuple[str, float], ...]  # seconds
    versions: tuple[tuple[str, str], ...]
    losses: tuple[tuple[int, float, str | None], ...]  # epoch, training loss, word that entered
    command: str | None
    unsaid: tuple[str, ...]


def provenance_of(
    subject: LoadedRun, data: str | None, words_file: str | None = None
) -> Provenance:
    """Returns how the run was made, from what it carries."""
    saved = subject.saved
    history = saved.training.get("history") or {}
    epochs = history.get("epochs") or []
    times = [("training", float(history["seconds"]))] if "seconds" in history else []
    if subject.selection is not None:
        spent = sum(step.seconds for step in subject.selection.steps)
        times.insert(0, ("choosing the words", spent))
    command, unsaid = _command(subject, data, words_file)
    return Provenance(
        settings=tuple(_settings(subject)),
        times=tuple(times),
        versions=(("ipl that made the run", saved.ipl_version), *_versions()),
        losses=tuple((int(e["epoch"]) + 1, float(e["loss"]), e.get("word")) for e in epochs),
        command=command,
        unsaid=unsaid,
    )


def _settings(subject: LoadedRun) -> list[tuple[str, str]]:
    saved, training = subject.saved, subject.saved.training
    rows = [
        ("learner", saved.learner),
        ("backbone", str(saved.backbone["name"])),
        ("weights (SHA-256)", str(saved.backbone["weights_sha256"])),
        ("precision", str(saved.backbone.get("precision", "fp32"))),
        ("data", str(training.get("data"))),
        ("classes", str(len(subject.classes))),
    ]
    kept = [k for k in training if k not in ("data", "classes", "history")]
    rows += [(key, _text(training[key])) for key in kept if training[key] is not None]
    rows += [("placeholder", saved.placeholder)]
    if subject.selection is not None:
        chosen = subject.selection
        rows += [
            ("lambda", f"{chosen.lambda_:g}"),
            ("redundancy", chosen.preset),
            ("word embedding", chosen.word_embedding),
            ("sentence that scores words", chosen.template),
            ("search", chosen.search),
            ("pool", f"{chosen.pool_size:,} words, SHA-256 {chosen.pool_sha256[:12]}"),
        ]
    return rows


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _versions() -> tuple[tuple[str, str], ...]:
    """Returns what is installed where the report is made."""
    found = [("ipl that made this report", __version__), ("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def _command(
    subject: LoadedRun, data: str | None, words_file: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """Returns the command that makes the run again, if its data has no other classes."""
    command, unsaid = fit_command(subject.saved, subject.pool, data, words_file)
    run_images = subject.run_images
    if run_images is None or run_images.classes == run_images.dataset.class_names:
        return command, unsaid
    own, every = len(run_images.dataset.class_names), len(run_images.classes)
    if own == every:
        order = "This data has the classes in another order than the run: other shots are drawn."
        return command, (*unsaid, order)
    return None, (
        f"No command makes the run again: ipl fit would learn all {every} classes of "
        f"{run_images.source}, and the run had {own} of them.",
    )


def fit_command(
    saved: SavedPrompt, pool: Pool | None, data: str | None, words_file: str | None = None
) -> tuple[str, tuple[str, ...]]:
    """Returns the command that makes a run again, and sentences on what it cannot say."""
    training, unsaid = saved.training, []
    tried = len(saved.results.get("words_tried", ())) > 1
    parts: list[Any] = ["ipl", "fit", data or "DATA", "--learner", saved.learner]
    parts += ["--words", "auto" if tried else len(saved.words)]
    if saved.backbone["name"] != "pocket":
        parts += ["--backbone", saved.backbone["name"]]
    parts += _own_recipe(saved, tried)
    for key, default in DEFAULTS.items():
        if training.get(key, default) != default:
            parts += [f"--{key.replace('_', '-')}", training[key]]
    if saved.placeholder != "token":
        parts += ["--placeholder", saved.placeholder]
    chosen: Mapping[str, Any] = saved.selection or {}
    for key, default in CHOICE.items():
        if chosen.get(key, default) != default:
            parts += [f"--{key.strip('_').replace('_', '-')}", chosen[key]]
    template = "a photo of a {cls}, with emphasis on: {words}"
    if chosen.get("template", template) != template:
        parts += ["--template", chosen["template"]]
    if chosen.get("search") == "screen":
        unsaid.append("How long the shortlist of the search was is not kept in a run.")
    if chosen and pool is None:
        unsaid.append("The list of words it chose from is not kept in a run: give --words-file.")
    elif chosen and pool is not None:
        parts += ["--words-file", words_file] if words_file else []
        parts += ["--no-names"] if "no names" in pool.source else []
    precision = saved.backbone.get("precision", "fp32")
    if precision != "fp32":
        parts += ["--precision", precision]
    parts += ["--seed", training.get("seed", 1)]
    if data is None:
        unsaid.append(
            f"DATA is the folder or file of {training.get('data')!r}, with the "
            f"{len(training.get('classes', saved.classes))} classes of the run and no others."
        )
    return " ".join(shlex.quote(str(part)) for part in parts), tuple(unsaid)


def _own_recipe(saved: SavedPrompt, tried: bool) -> list[Any]:
    """Returns the options whose values are not the learner's published ones."""
    try:
        published = vars(learner_class(saved.learner).recipe(1 if tried else len(saved.words)))
    except IplError:
        published = {}
    parts: list[Any] = []
    for key, option in OPTIONS.items():
        value = saved.training.get(key)
        if value is not None and value != published.get(key):
            parts += [option, value]
    return parts
