"""KgCoOp: CoOp's prompts, and a loss that holds them near a hand-made template."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cosine_similarity

from ipl.backbone.backbone import Backbone
from ipl.learners.coop import CoOp
from ipl.learners.kgcoop import KgCoOp
from ipl.learners.learner import Batch

NAMES = ["cat", "starry_night", "pirate ship"]
Images = tuple[torch.Tensor, torch.Tensor]


def kgcoop(backbone: Backbone, words: int = 0, **options: str) -> KgCoOp:
    return KgCoOp(
        backbone, KgCoOp.layout_for(words, KgCoOp.hyperparameters(words).m), NAMES, **options
    )


def move(learner: KgCoOp) -> None:
    """Takes the vectors away from where they start."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        learner.soft.add_(0.1 * torch.randn(learner.soft.shape, generator=generator))


@pytest.mark.parametrize("words", [0, 1, 3])
def test_the_layout_is_coops(pocket: Backbone, words: int) -> None:
    assert KgCoOp.layout_for(words, 4) == CoOp.layout_for(words, 4)
    coop = CoOp(pocket, CoOp.layout_for(words, 4), NAMES, seed=1)
    assert torch.equal(kgcoop(pocket, words).soft, coop.soft)
    assert torch.equal(kgcoop(pocket, words).text_features(), coop.text_features())


def loss_by_hand(
    learner: KgCoOp, images: torch.Tensor, labels: torch.Tensor, template: str
) -> tuple[float, float]:
    """Returns the cross-entropy and 1 - mean cosine, in plain Python from unnormalised features."""
    backbone = learner.backbone
    prompts = learner.prompts
    texts = backbone.encode_text(prompts.assemble(learner.soft), prompts.eos).detach().double()
    names = ["cat", "starry night", "pirate ship"]
    taught = torch.cat([backbone.encode_texts([template.format(n)]) for n in names]).double()
    entropy = 0.0
    for image, label in zip(images.double(), labels.tolist(), strict=True):
        scores = [backbone.logit_scale * cosine_similarity(image, t, dim=0).item() for t in texts]
        entropy += math.log(sum(math.exp(s - scores[label]) for s in scores)) / len(images)
    cosines = [cosine_similarity(a, b, dim=0).item() for a, b in zip(texts, taught, strict=True)]
    return entropy, 1 - sum(cosines) / len(cosines)


@pytest.mark.parametrize("words", [0, 2])
@pytest.mark.parametrize("template", ["a photo of a {}.", "a photo of a {}, a type of texture."])
def test_the_loss_by_hand(pocket: Backbone, few_images: Images, words: int, template: str) -> None:
    learner = kgcoop(pocket, words, class_template=template)
    move(learner)
    entropy, distance = loss_by_hand(learner, *few_images, template)
    assert distance > 0.01
    ours = learner.loss(Batch(few_images[1], few_images[0])).item()
    assert ours == pytest.approx(entropy + 8.0 * distance, abs=2e-4)


def test_at_its_start_the_plain_learner_is_its_own_teacher(
    pocket: Backbone, few_images: Images
) -> None:
    learner = kgcoop(pocket)
    torch.testing.assert_close(learner.text_features(), learner.teacher, atol=1e-5, rtol=0)
    batch = Batch(few_images[1], few_images[0])
    plain = CoOp(pocket, CoOp.layout_for(0, 4), NAMES).loss(batch)
    torch.testing.assert_close(learner.loss(batch), plain, atol=1e-4, rtol=0)


def test_the_teacher_is_the_template_about_each_class(pocket: Backbone) -> None:
    learner = kgcoop(pocket, class_template="a centered satellite photo of {}.")
    for row, name in zip(learner.teacher, ["cat", "starry night", "pirate ship"], strict=True):
        alone = pocket.encode_texts([f"a centered satellite photo of {name}."])[0]
        torch.testing.assert_close(row, alone / alone.norm(), atol=1e-6, rtol=0)
    assert not learner.teacher.requires_grad
    default = kgcoop(pocket).teacher[0]
    cat = pocket.encode_texts(["a photo of a cat."])[0]
    torch.testing.assert_close(default, cat / cat.norm(), atol=1e-6, rtol=0)


def test_the_teacher_is_asked_once_and_is_no_part_of_the_state(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner, batch = kgcoop(pocket), Batch(few_images[1], few_images[0])
    learner.loss(batch)
    monkeypatch.setattr(Backbone, "encode_texts", None)  # a second time would fail
    learner.loss(batch).backward()
    assert set(learner.state_dict()) == {"soft"}


def test_other_classes_have_their_own_teacher(pocket: Backbone) -> None:
    learner = kgcoop(pocket, class_template="{} texture.")
    assert learner.teacher.shape == (3, 512)
    other = learner.rebuilt(class_names=["dog", "cat"])
    assert isinstance(other, KgCoOp)
    torch.testing.assert_close(other.teacher[1], learner.teacher[0], atol=1e-6, rtol=0)
    assert not torch.allclose(other.teacher[0], learner.teacher[0], atol=1e-3)


def test_the_pull_comes_back_to_the_template(pocket: Backbone, few_images: Images) -> None:
    """The gradient of the second term alone leads the features towards the teacher's."""
    learner, batch = kgcoop(pocket), Batch(few_images[1], few_images[0])
    move(learner)
    coop = CoOp(pocket, learner.layout, NAMES)
    coop.load_state_dict(learner.state_dict())
    (both,) = torch.autograd.grad(learner.loss(batch), learner.soft)
    (entropy,) = torch.autograd.grad(coop.loss(batch), coop.soft)
    distance = 1 - (learner.text_features() * learner.teacher).sum(-1).mean()
    (pull,) = torch.autograd.grad(distance, learner.soft)
    torch.testing.assert_close(both - entropy, 8 * pull, atol=1e-4, rtol=1e-3)
    with torch.no_grad():
        learner.soft -= 0.01 * pull / pull.norm()
        nearer = 1 - (learner.text_features() * learner.teacher).sum(-1).mean()
    assert nearer < distance
