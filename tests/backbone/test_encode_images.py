"""Image files to features: how many threads decode them."""

from __future__ import annotations

import pytest

from ipl.backbone import encode_images


@pytest.mark.parametrize(
    ("cores", "given", "expected"),
    [(1, "", 4), (12, "", 12), (64, "", 16), (16, "8", 8), (16, "1", 4), (12, "4,2", 12)],
)
def test_a_thread_for_each_core_of_the_process(
    cores: int, given: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_images, "cores", lambda: cores)
    monkeypatch.setenv("OMP_NUM_THREADS", given)  # a worker of several jobs has a share
    with encode_images.decoding_threads() as threads:
        assert threads._max_workers == expected
