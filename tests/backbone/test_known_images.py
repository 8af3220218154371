"""Which class names are taken for those of a set that PocketCLIP was trained on."""

from __future__ import annotations

import pytest

from ipl.backbone.known_images import note_known_images

KNOWN = {
    "Oxford-IIIT Pets": ("Abyssinian", "american_bulldog", "Persian"),
    "Caltech101": ("Leopards", "wild cat", "accordion", "windsor chair"),
    "Flowers102": ("pink primrose", "Alpine Sea Holly", "azalea"),
    "EuroSAT": ("AnnualCrop", "Forest", "HerbaceousVegetation", "SeaLake"),
}


@pytest.mark.parametrize("title", KNOWN)
def test_a_known_set_is_named(title: str) -> None:
    (note,) = note_known_images("pocket", KNOWN[title])
    assert f"are those of {title}, and PocketCLIP was trained on images of that set" in note
    assert note.startswith(f"All {len(KNOWN[title])} class names ")
    assert note_known_images("openai/clip-vit-base-patch16", KNOWN[title]) == ()


def test_a_few_other_classes_do_not_hide_it() -> None:
    (note,) = note_known_images("pocket", [*KNOWN["Caltech101"], "my own class"])
    assert note.startswith("4 of 5 class names ")


@pytest.mark.parametrize(
    "names",
    [("cat", "dog", "fox"), ("Persian", "Siamese"), ("forest", "beach", "castle"), ("river",)],
)
def test_common_names_are_not_enough(names: tuple[str, ...]) -> None:
    assert note_known_images("pocket", names) == ()
