"""A workbench to call over HTTP, served by the tests' own process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ipl.apps.workbench import Workbench, launch
from ipl.cli.ui import upload_folder


@contextmanager
def serve_workbench(root: Path, **options: Any) -> Iterator[tuple[Workbench, str]]:
    """Yields a workbench that writes only into a folder, and its address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(root))
        with upload_folder() as folder:
            workbench = Workbench(folder, root / "runs", device="cpu", **options)
            page = launch(workbench, allow_hosts=["proxy.example"])
            yield workbench, page.local_url
            assert workbench.end()
            page.close(verbose=False)
