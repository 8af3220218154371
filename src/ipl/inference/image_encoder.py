"""From pixels to image features: torch, or onnxruntime in int8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ipl.backbone.features import encode_pixels
from ipl.classifier import PromptClassifier
from ipl.inference.exports.onnx import (
    ImageTower,
    check_packages,
    quiet_export,
    write_fp32,
    write_int8,
)
from ipl.support.errors import ConfigError
from ipl.support.machine import cores

Array = np.ndarray[Any, Any]
ENGINES = ("torch", "onnx")
MAX_WORKERS = 8


class ImageEncoder:
    """From pixels to image features, with one of the engines, for several threads at once.

    On a CPU one thread for each core takes less time than all cores for one batch after another:
    the threads do not wait for each other after every matrix product. With the engine torch, a
    thread that is alone still uses all cores. The engine "onnx" computes matrix products in int8,
    with one range of numbers for a batch; so a feature depends a little on the rest of its batch.
    """

    def __init__(self, classifier: PromptClassifier, engine: str = "torch") -> None:
        if engine not in ENGINES:
            raise ConfigError(f"engine is {engine!r}; allowed are {', '.join(ENGINES)}.")
        learner = classifier.learner_  # raises NotFittedError
        self.preprocessing = learner.backbone.preprocessing
        self.on_cpu = learner.backbone.device.type == "cpu"
        available = cores()
        # How many threads should call it.
        self.workers = min(MAX_WORKERS, available) if self.on_cpu else 1
        self._threads = torch.get_num_threads()
        self._busy = 0
        self._lock = Lock()
        self.encode: Callable[[Array], Tensor]  # bytes (batch, h, w, 3) to features (batch, dim)
        if engine == "torch":
            tower = learner.image_features if learner.prompts_images else None
            self.encode = lambda pixels: encode_pixels(
                learner.backbone, torch.from_numpy(pixels), tower
            )
        else:
            # A thread that calls onnxruntime computes too; its pool is for the remaining cores.
            self.encode = _onnx_tower(classifier, available - self.workers + 1)

    @contextmanager
    def share(self) -> Iterator[None]:
        """Gives the calling thread its share of the cores, while it encodes images."""
        with self._lock:
            self._busy += 1
            alone = self._busy == 1
        if self.on_cpu:
            torch.set_num_threads(self._threads if alone else max(1, self._threads // self.workers))
        try:
            yield
        finally:
            with self._lock:
                self._busy -= 1

    def close(self) -> None:
        """Gives torch back the threads that it had; some of its libraries count them globally."""
        torch.set_num_threads(self._threads)


@torch.no_grad()
def _onnx_tower(classifier: PromptClassifier, threads: int) -> Callable[[Array], Tensor]:
    """The image tower as a function that runs in onnxruntime."""
    check_packages()
    backbone = classifier.learner_.backbone
    if backbone.device.type != "cpu":
        raise ConfigError("The engine onnx runs on the CPU; use device cpu.")
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with TemporaryDirectory(prefix="ipl-onnx-") as folder, quiet_export():
        path, small = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        write_fp32(ImageTower(classifier).eval(), path, backbone.preprocessing.crop, ["features"])
        write_int8(path, small)
        session = onnxruntime.InferenceSession(small, options, providers=["CPUExecutionProvider"])
    return lambda pixels: torch.from_numpy(session.run(["features"], {"pixels": pixels})[0])
