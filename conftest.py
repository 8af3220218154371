"""Before all tests: asserts of helpers explain themselves; without a GPU, Triton interprets."""

import os
import shutil

import pytest

pytest.register_assert_rewrite("tests.helpers")  # before tests/conftest.py imports one of them
if shutil.which("nvidia-smi") is None:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which torch may do
