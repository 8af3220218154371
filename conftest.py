"""Before all tests: without an NVIDIA GPU, Triton's kernels run in its interpreter."""

import os
import shutil

if shutil.which("nvidia-smi") is None:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which torch may do
