"""open_clip for the tests, imported without torchvision.

open_clip and timm import torchvision for image transforms, datasets and one norm, none of which
ipl uses. A stand-in takes its place while they are imported, so that their towers can be compared
with ours on machines that have no torchvision for their torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import Enum
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch

InterpolationMode = Enum(
    "InterpolationMode", ["NEAREST", "BILINEAR", "BICUBIC", "BOX", "HAMMING", "LANCZOS"]
)


class _StandIn(ModuleType):
    """A module of torchvision in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "InterpolationMode":
            return InterpolationMode
        return type(name, (torch.nn.Module,), {})


class _Finder(MetaPathFinder, Loader):
    """Finds a stand-in for torchvision and each of its modules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != "torchvision":
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


def import_open_clip() -> Any:
    """Returns open_clip, or skips the test where it is not installed."""
    if "open_clip" not in sys.modules:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
        try:
            pytest.importorskip("open_clip", reason="open_clip_torch is not installed")
        finally:
            sys.meta_path.remove(finder)
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
    return sys.modules["open_clip"]
