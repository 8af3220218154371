"""Image features: threads that decode, what is computed, what is kept, and under which key."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ipl.backbone import features
from ipl.backbone.backbone import Backbone
from ipl.backbone.features import (
    CentreCrops,
    FeatureStore,
    crop,
    encode_batches,
    encode_files,
)
from ipl.datasets.dataset import Dataset
from ipl.datasets.images import ImageSource, UnreadableImageError
from ipl.support.cache import Cache
from ipl.support.progress import Reporter

pytestmark = pytest.mark.usefixtures("one_thread")


class Counted(Reporter):
    """Keeps the totals of tasks."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.totals: list[int] = []

    def task(self, title: str, total: int) -> Any:
        self.totals.append(total)
        return super().task(title, total)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", Counted())


@pytest.fixture
def images(scenes: Dataset, tmp_path: Path) -> list[Path]:
    """Returns copies of six images of different content."""
    for number, item in enumerate(scenes.test[:6]):
        shutil.copy(str(item.path), tmp_path / f"{number}.jpg")
    return [tmp_path / f"{number}.jpg" for number in range(6)]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[list[Path]]:
    """Returns the list of what the image tower was asked for, call by call."""
    calls: list[list[Path]] = []

    def encode(backbone: Backbone, paths: Sequence[Path], *rest: Any, **more: Any) -> Any:
        calls.append(list(paths))
        return encode_batches(backbone, paths, *rest, **more)

    monkeypatch.setattr(features, "encode_batches", encode)
    return calls


def count(cache: Cache) -> int:
    return cache.usage()["images"][0]


# -- decoding -------------------------------------------------------------------------------------


def test_as_many_crops_are_kept_as_fit_into_memory(pocket: Backbone, images: list[Path]) -> None:
    three = images[:3]
    expected = [crop(pocket, path) for path in three]
    crops = CentreCrops(pocket, 3 * expected[0].nbytes - 1)
    for _ in range(2):
        assert np.array_equal([crops.cut(path) for path in three], expected)
    found = encode_files(pocket, three, crops=crops)
    assert torch.equal(found.features, encode_files(pocket, three).features)
    for path in three:
        path.unlink()
    assert np.array_equal([crops.cut(path) for path in three[:2]], expected[:2])
    assert isinstance(crops.cut(three[2]), UnreadableImageError)


def test_images_that_nobody_waits_for_are_not_opened(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Ctrl-C, with several batches ahead."""
    monkeypatch.setattr(features, "BATCH", 2)
    monkeypatch.setattr(features, "AHEAD", 100)
    opened = []

    def load_slowly() -> Image.Image:
        opened.append(1)
        time.sleep(0.02)
        return Image.new("RGB", (64, 64))

    batches = encode_batches(pocket, [ImageSource("slow", load_slowly)] * 200)
    assert len(next(batches)) == 2
    batches.close()
    assert len(opened) < 100


# -- what is computed, and what is kept -----------------------------------------------------------


def test_a_second_store_reads_the_same_bits_from_the_cache(
    pocket: Backbone, cache: Cache, images: list[Path], computed: list[list[Path]]
) -> None:
    first = FeatureStore(pocket, cache).encode(images)
    assert count(cache) == 6
    reporter = Counted()
    second = FeatureStore(pocket, Cache(cache.folder)).encode(images, reporter)
    assert len(computed) == 1
    assert second.features.numpy().tobytes() == first.features.numpy().tobytes()
    assert second.indices == first.indices == tuple(range(6))
    assert reporter.totals == []


def test_only_what_is_missing_is_computed(
    pocket: Backbone, cache: Cache, images: list[Path], computed: list[list[Path]]
) -> None:
    FeatureStore(pocket, cache).encode(images[1:4])
    reporter, store = Counted(), FeatureStore(pocket, cache)
    asked = [*images, images[0], images[2]]
    found = store.encode(asked, reporter)
    assert computed == [images[1:4], [images[0], *images[4:]]]
    assert reporter.totals == [3]
    assert found.indices == tuple(range(8))
    assert torch.allclose(found.features, encode_files(pocket, asked).features, atol=1e-5)
    assert store.encode(asked, reporter).features.equal(found.features)
    assert reporter.totals == [3]  # from memory


def test_a_file_is_known_by_its_content(
    pocket: Backbone, cache: Cache, images: list[Path], computed: list[list[Path]]
) -> None:
    FeatureStore(pocket, cache).encode(images[:1])
    moved = images[0].rename(images[0].with_name("a new name.jpg"))
    FeatureStore(pocket, cache).encode([moved])
    assert len(computed) == 1
    moved.write_bytes(images[1].read_bytes())  # other content at the same path
    again = FeatureStore(pocket, cache).encode([moved])
    assert computed[1:] == [[moved]]
    assert torch.equal(again.features, encode_files(pocket, images[1:2]).features)


def test_copies_of_a_file_share_one_feature(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copy(images[0], images[0].with_name("copy.jpg")))

    def wobble(backbone: Backbone, paths: Sequence[Path], *rest: Any, **more: Any) -> Any:
        """As a tower does whose last bits depend on the place in the batch."""
        for batch in encode_batches(backbone, paths, *rest, **more):
            yield [feature + 1e-7 * row for row, feature in enumerate(batch)]

    monkeypatch.setattr(features, "encode_batches", wobble)
    paths = [images[0], images[1], copy]
    first = FeatureStore(pocket, cache).encode(paths)
    assert torch.equal(first.features[0], first.features[2])
    assert count(cache) == 2
    assert torch.equal(FeatureStore(pocket, cache).encode(paths).features, first.features)


def test_unreadable_files_are_named_and_never_kept(
    pocket: Backbone, cache: Cache, images: list[Path]
) -> None:
    folder = images[0].parent
    (folder / "text.jpg").write_text("no image")
    (folder / "folder.jpg").mkdir()
    asked = [
        folder / "text.jpg",
        images[0],
        folder / "missing.jpg",
        images[1],
        folder / "folder.jpg",
    ]
    for _ in range(2):
        found = FeatureStore(pocket, cache).encode(asked)
        assert found.indices == (1, 3)
        assert found.unreadable == encode_files(pocket, asked).unreadable
        assert len(found.unreadable) == 3
        assert count(cache) == 2
    asked[0].write_bytes(images[2].read_bytes())
    assert FeatureStore(pocket, cache).encode(asked).indices == (0, 1, 3)


def test_images_are_hashed_once_and_anew_if_they_change(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed, hash_file = list[Path](), features.hash_file
    monkeypatch.setattr(
        features, "hash_file", lambda path: (hashed.append(path), hash_file(path))[1]
    )
    store = FeatureStore(pocket, cache)
    pixels = [
        ImageSource("black", lambda: Image.new("RGB", (9, 9))),
        ImageSource("white", lambda: Image.new("RGB", (9, 9), "white")),
    ]
    missing = images[0].with_name("missing.jpg")
    found = store.hashes([*images, images[0], missing, *pixels])
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in images]
    assert found[:8] == [*sums, sums[0], None]
    assert len({*found[8:], *sums}) == 8
    store.encode(images)  # for the key of the cache
    assert len(hashed) == len(images)
    images[0].write_bytes(images[1].read_bytes())
    assert store.hashes(images) == [sums[1], *sums[1:]]


def test_a_file_written_while_it_is_encoded_is_not_kept(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(backbone: Backbone, paths: Sequence[Path], *rest: Any, **more: Any) -> Any:
        images[0].write_bytes(images[1].read_bytes())  # after it was hashed
        return encode_batches(backbone, paths, *rest, **more)

    monkeypatch.setattr(features, "encode_batches", encode)
    FeatureStore(pocket, cache).encode(images[:1])
    assert count(cache) == 0


@pytest.mark.parametrize(
    "arrays",
    [
        {"feature": np.zeros(511, dtype=np.float32)},
        {"feature": np.full(512, np.nan, dtype=np.float32)},
        None,
    ],
    ids=["too short", "NaN", "damaged"],
)
def test_an_unusable_entry_is_replaced(
    pocket: Backbone, cache: Cache, images: list[Path], arrays: dict[str, Any] | None
) -> None:
    first = FeatureStore(pocket, cache).encode(images[:1])
    (path,) = cache.files("images")
    if arrays is None:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        cache.put("images", path.name, arrays, {})
    again = FeatureStore(pocket, cache).encode(images[:1])
    assert torch.equal(again.features, first.features)
    kept = cache.get("images", path.name)
    assert kept is not None
    assert kept.arrays["feature"].tobytes() == first.features[0].numpy().tobytes()


def test_what_was_done_before_an_interruption_is_kept(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(*given: Any, **more: Any) -> Any:
        yield from islice(encode_batches(*given, **more), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(features, "encode_batches", encode)
    monkeypatch.setattr(features, "BATCH", 2)
    with pytest.raises(KeyboardInterrupt):
        FeatureStore(pocket, cache).encode(images)
    assert count(cache) == 4


def test_texts_that_do_not_fit_are_not_kept(pocket: Backbone) -> None:
    store, computed = FeatureStore(pocket, text_bytes=2 * 40), list[str]()

    def chunks(key: str, count: int) -> Iterator[torch.Tensor]:
        computed.append(key)
        yield from (torch.full((10,), float(number)) for number in range(count))

    for key, count in (("many", 5), ("few", 2), ("other", 2), ("few", 2)):
        for _ in range(2):
            found = store.texts(key, lambda: chunks(key, count))  # noqa: B023
            assert [int(each[0]) for each in found] == list(range(count))
    assert computed == ["many", "many", "few", "other", "few"]
