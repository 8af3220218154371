"""Image features in memory and on disk: what is computed, what is kept, and under which key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import pytest
import torch

import ipl.backbone.feature_store as store_module
from ipl.backbone import encode_images
from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import ImageFeatures, encode_batches, encode_files
from ipl.backbone.feature_store import FeatureStore, HashedFile, hash_file
from ipl.datasets.images import ImageSource
from ipl.datasets.scenes import CLASSES
from ipl.support.cache import Cache
from ipl.support.progress import Reporter
from tests.helpers.scenes import open_scene

pytestmark = pytest.mark.usefixtures("one_thread")


class Counted(Reporter):
    """Keeps the totals of tasks and what is warned of."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.totals: list[int] = []
        self.heard: list[str] = []

    def task(self, title: str, total: int) -> Any:
        self.totals.append(total)
        return super().task(title, total)

    def warn(self, message: str) -> None:
        self.heard.append(message)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", Counted())


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """Returns six image files of different content."""
    paths = []
    for number in range(6):
        paths.append(tmp_path / f"{number}.png")
        open_scene(CLASSES[number], 0).resize((96, 96)).save(paths[-1])
    return paths


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[list[Path]]:
    """Returns the list of what the image tower was asked for, call by call."""
    calls: list[list[Path]] = []

    def encode(backbone: Backbone, paths: Sequence[Path], *rest: Any, **more: Any) -> Any:
        calls.append(list(paths))
        return encode_batches(backbone, paths, *rest, **more)

    monkeypatch.setattr(store_module, "encode_batches", encode)
    return calls


def encode_at_once(backbone: Backbone, paths: Sequence[Path]) -> ImageFeatures:
    """Returns what a store computes for a few images."""
    (found,) = encode_batches(backbone, paths, store_module.SMALLEST_BATCH)
    return found


def count(cache: Cache) -> int:
    return cache.usage()["images"][0]


def test_without_a_cache_nothing_is_written(
    pocket: Backbone, images: list[Path], computed: list[list[Path]]
) -> None:
    before = os.environ["IPL_CACHE"]
    store = FeatureStore(pocket)
    first, second = store.encode(images), store.encode(images[::-1])
    assert torch.equal(first.features, second.features.flip(0))
    assert torch.equal(first.features, encode_at_once(pocket, images).features)
    assert computed == [images]
    assert not Path(before).exists()


def test_a_second_store_runs_no_image_tower(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = FeatureStore(pocket).encode(images)
    first = FeatureStore(pocket, cache).encode(images)
    assert torch.equal(first.features, plain.features)
    assert count(cache) == 6

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the image tower was run")

    monkeypatch.setattr(store_module, "encode_batches", fail)
    monkeypatch.setattr(pocket, "encode_image", fail)
    reporter = Counted()
    second = FeatureStore(pocket, Cache(cache.folder)).encode(images, reporter)
    assert second.features.dtype == torch.float32
    assert second.features.device == pocket.device
    assert second.features.numpy().tobytes() == first.features.numpy().tobytes()
    assert second.indices == first.indices == tuple(range(6))
    assert second.unreadable == ()
    assert reporter.totals == []


def test_only_what_is_missing_is_computed_and_counted(
    pocket: Backbone, cache: Cache, images: list[Path], computed: list[list[Path]]
) -> None:
    FeatureStore(pocket, cache).encode(images[1:4])
    reporter = Counted()
    store = FeatureStore(pocket, cache)
    asked = [*images, images[0], images[2]]
    features = store.encode(asked, reporter)
    assert computed == [images[1:4], [images[0], *images[4:]]]
    assert reporter.totals == [3]
    assert features.indices == tuple(range(8))
    assert torch.equal(features.features[0], features.features[6])
    expected = encode_at_once(pocket, asked).features
    assert torch.allclose(features.features, expected, atol=1e-5)
    assert store.encode(asked, reporter).features.equal(features.features)
    assert reporter.totals == [3]  # from memory


def test_a_file_is_known_by_its_content(
    pocket: Backbone, cache: Cache, images: list[Path], computed: list[list[Path]]
) -> None:
    FeatureStore(pocket, cache).encode(images[:1])
    moved = images[0].with_name("a new name.png")
    images[0].rename(moved)
    FeatureStore(pocket, cache).encode([moved])
    assert len(computed) == 1
    other = encode_at_once(pocket, images[1:2]).features
    moved.write_bytes(images[1].read_bytes())  # other content at the same path
    again = FeatureStore(pocket, cache).encode([moved])
    assert computed[1:] == [[moved]]
    assert torch.equal(again.features, other)


def test_copies_of_a_file_share_one_feature(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = images[0].with_name("copy.png")
    copy.write_bytes(images[0].read_bytes())

    def wobble(backbone: Backbone, paths: Sequence[Path], *rest: Any, **more: Any) -> Any:
        """As a tower does whose last bits depend on the place in the batch."""
        for found in encode_batches(backbone, paths, *rest, **more):
            shift = 1e-7 * torch.arange(len(paths))[:, None]
            yield replace(found, features=found.features + shift)

    monkeypatch.setattr(store_module, "encode_batches", wobble)
    paths = [images[0], images[1], copy]
    first = FeatureStore(pocket, cache).encode(paths)
    assert torch.equal(first.features[0], first.features[2])
    assert count(cache) == 2
    assert torch.equal(FeatureStore(pocket, cache).encode(paths).features, first.features)


def test_unreadable_files_are_named_and_never_kept(
    pocket: Backbone, cache: Cache, images: list[Path], computed: list[list[Path]]
) -> None:
    tmp = images[0].parent
    (tmp / "text.png").write_text("no image")
    (tmp / "empty.png").write_bytes(b"")
    (tmp / "cut.png").write_bytes(images[5].read_bytes()[:-40])
    (tmp / "folder.png").mkdir()
    bad = [tmp / name for name in ("text.png", "missing.png", "empty.png", "cut.png", "folder.png")]
    asked = [bad[0], images[0], bad[1], bad[2], images[1], bad[3], bad[4]]
    expected = encode_at_once(pocket, asked)
    for _ in range(2):
        seen = FeatureStore(pocket, cache).encode(asked)
        assert seen.indices == expected.indices == (1, 4)
        assert seen.unreadable == expected.unreadable
        assert len(seen.unreadable) == 5
        assert count(cache) == 2
    assert computed[1] == bad


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_images_are_hashed_once_and_anew_if_they_change(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def count_hashed(path: Path) -> HashedFile:
        hashed.append(path)
        return hash_file(path)

    monkeypatch.setattr(store_module, "hash_file", count_hashed)
    store = FeatureStore(pocket, cache)
    pixels = ImageSource("in memory", lambda: open_scene(CLASSES[0], 0))
    other_pixels = ImageSource("also in memory", lambda: open_scene(CLASSES[0], 1))
    missing = images[0].with_name("missing.png")
    found = store.hashes([*images, images[0], missing, pixels, other_pixels])
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in images]
    assert found[:8] == [*sums, sums[0], None]
    assert len({*found[8:], *sums}) == 8
    store.encode(images)  # for the key of the cache
    assert len(hashed) == len(images) + 1  # one is missing
    images[0].write_bytes(images[1].read_bytes())
    assert store.hashes(images) == [sums[1], *sums[1:]]


def test_a_file_without_end_is_not_hashed(pocket: Backbone, cache: Cache) -> None:
    seen = FeatureStore(pocket, cache).encode([Path("/dev/zero")])
    assert seen.unreadable == encode_files(pocket, [Path("/dev/zero")]).unreadable


def test_a_file_that_becomes_readable(pocket: Backbone, cache: Cache, images: list[Path]) -> None:
    late = images[0].with_name("late.png")
    late.write_text("not yet")
    assert FeatureStore(pocket, cache).encode([late]).indices == ()
    late.write_bytes(images[2].read_bytes())
    assert FeatureStore(pocket, cache).encode([late]).indices == (0,)


def test_a_file_written_while_it_is_encoded_is_not_kept(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = images[0].read_bytes()

    def encode(backbone: Backbone, paths: Sequence[Path], *rest: Any, **more: Any) -> Any:
        images[0].write_bytes(images[1].read_bytes())  # after it was hashed
        return encode_batches(backbone, paths, *rest, **more)

    monkeypatch.setattr(store_module, "encode_batches", encode)
    FeatureStore(pocket, cache).encode(images[:1])
    assert count(cache) == 0
    monkeypatch.undo()
    images[0].write_bytes(old)
    again = FeatureStore(pocket, cache).encode(images[:1])
    assert torch.equal(again.features, encode_at_once(pocket, images[:1]).features)


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "0" * 64},
        {"dtype": torch.bfloat16},
        {"device": torch.device("cuda")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_the_feature_changes_the_key(
    pocket: Backbone, images: list[Path], change: dict[str, Any]
) -> None:
    asked: list[str] = []

    class Asked:
        """A cache that has nothing."""

        def get(self, kind: str, key: str) -> None:
            asked.append(key)

    def look(**changes: Any) -> None:
        fields = ("fingerprint", "device", "dtype", "feature_dim")
        parts = {name: getattr(pocket, name) for name in fields}
        FeatureStore(SimpleNamespace(**{**parts, **changes}), Asked())._look_up(images[:1])

    look()
    look()
    look(**change)
    assert asked[0] == asked[1]
    assert asked[2] != asked[0]


@pytest.mark.parametrize(
    "arrays",
    [{}, {"feature": np.zeros(511, dtype=np.float32)}, {"feature": np.zeros(512)}],
    ids=["nothing", "too short", "double"],
)
def test_an_entry_of_another_shape_is_replaced(
    pocket: Backbone, cache: Cache, images: list[Path], arrays: dict[str, Any]
) -> None:
    first = FeatureStore(pocket, cache).encode(images[:1])
    (entry,) = cache.entries("images")
    cache.put("images", entry.key, arrays, {})
    again = FeatureStore(pocket, cache).encode(images[:1])
    assert torch.equal(again.features, first.features)
    kept = cache.get("images", entry.key)
    assert kept is not None
    assert kept.arrays["feature"].tobytes() == first.features[0].numpy().tobytes()


def test_a_damaged_entry_is_computed_anew(
    pocket: Backbone, cache: Cache, images: list[Path], computed: list[list[Path]]
) -> None:
    first = FeatureStore(pocket, cache).encode(images)
    entry = list(cache.entries("images"))[2]
    entry.path.write_bytes(entry.path.read_bytes()[:-1])
    again = FeatureStore(pocket, cache).encode(images)
    assert len(computed[1]) == 1
    assert torch.allclose(again.features, first.features, atol=1e-5)
    assert len(cache.reporter.heard) == 1
    assert count(cache) == 6


def test_a_cache_that_cannot_be_written_does_not_break_the_work(
    pocket: Backbone, tmp_path: Path, images: list[Path]
) -> None:
    (tmp_path / "in the way").write_text("mine")
    reporter = Counted()
    store = FeatureStore(pocket, Cache(tmp_path / "in the way", reporter))
    seen = store.encode(images)
    assert torch.equal(seen.features, encode_at_once(pocket, images).features)
    assert len(reporter.heard) == 1


def test_what_was_done_before_an_interruption_is_kept(
    pocket: Backbone, cache: Cache, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(*given: Any, **more: Any) -> Any:
        yield from islice(encode_batches(*given, **more), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(store_module, "encode_batches", encode)
    monkeypatch.setattr(encode_images, "BATCH", 2)
    with pytest.raises(KeyboardInterrupt):
        FeatureStore(pocket, cache).encode(images)
    assert count(cache) == 4


def test_texts_that_do_not_fit_are_not_kept(pocket: Backbone) -> None:
    store, alive = FeatureStore(pocket, text_bytes=2 * 40), list[ReferenceType[torch.Tensor]]()

    def chunk(number: int) -> torch.Tensor:
        made = torch.full((10,), float(number))
        alive.append(ref(made))
        return made

    def chunks(count: int) -> Iterator[torch.Tensor]:
        for number in range(count):
            if number > 2:  # those before fitted, until there were three
                assert not any(each() is not None for each in alive)
            yield chunk(number)

    for key, count in (("many", 5), ("few", 2)):
        for again in (False, True):
            alive.clear()
            numbers = []
            for each in store.texts(key, lambda n=count: chunks(n)):  # type: ignore[misc]
                numbers.append(int(each[0]))
                del each
            assert numbers == list(range(count))
            assert bool(alive) == (key == "many" or not again)
