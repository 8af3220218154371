"""Where the kernels of a GPU are tested."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def kernel_device() -> str:
    """Returns where Triton's kernels run: on a GPU, else in Triton's interpreter on a CPU."""
    if torch.cuda.is_available():
        return "cuda"
    pytest.importorskip("triton", reason="needs an NVIDIA GPU or Triton")
    return "cpu"
