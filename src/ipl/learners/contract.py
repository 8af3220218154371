"""The contract of learners, as a check for learners of one's own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.learners.hyperparameters import PROTOCOLS, Hyperparameters
from ipl.learners.learner import Batch, Learner

NAMES = ("cat", "starry night", "pirate ship")
WORDS = ("blue", "stone", "water")
LABELS = (2, 0, 1, 1)
STEPS = 5
CLOSE = 0.01  # of logits that are computed in two ways, in fp32


def check_learner(cls: type[Learner], backbone: Backbone | None = None) -> None:
    """Check that a learner keeps what training, prediction and saving rely on.

    The learner is built for three classes without words and with three, and trained for a few steps
    on four random images. Its hyperparameters and layout, its parameters and how they start, the
    loss and its gradients, the words, the logits, and copies for other classes are looked at. The
    learner need not be registered.

    Parameters
    ----------
    cls : type
        A subclass of `Learner`.
    backbone : Backbone, optional
        The frozen towers to check it on, in fp32. Default: the small CLIP that comes with ipl.

    Raises
    ------
    AssertionError
        If something does not hold; the message says what, and for how many words.

    Examples
    --------
    >>> from ipl.learners import CoOp, check_learner
    >>> check_learner(CoOp)
    """
    backbone = backbone or load_backbone()
    for words in ((), WORDS):
        check = _Check(cls, backbone, words)
        check.hyperparameters()
        check.start()
        check.logits()
        check.placing()
        check.training()
        check.copies()


@dataclass
class _Check:
    """The checks of a learner with as many slots as there are words."""

    cls: type[Learner]
    backbone: Backbone
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        edge = self.backbone.preprocessing.crop
        draw = torch.randn(len(LABELS), 3, edge, edge, generator=torch.Generator().manual_seed(0))
        self.pixels = draw.to(self.backbone.device)
        with torch.no_grad():
            self.frozen = normalize(self.backbone.encode_image(self.pixels), dim=-1)

    def require(self, holds: bool | Tensor, what: str) -> None:
        if not holds:
            raise AssertionError(f"{self.cls.__name__} with {len(self.words)} words: {what}.")

    def make(self, seed: int = 1, placed: bool = True) -> Learner:
        """An untrained learner, with its words in place if wanted."""
        count = len(self.words)
        numbers = self.cls.hyperparameters(count)
        learner = self.cls.from_hyperparameters(self.backbone, NAMES, count, numbers, seed=seed)
        for word in self.words if placed else ():
            learner.place_word(word)
        return learner

    @torch.no_grad()
    def logits_of(self, learner: Learner) -> Tensor:
        return learner.logits(learner.image_features(self.pixels))

    def hyperparameters(self) -> None:
        """The learner has a name, hyperparameters for every protocol, and a layout."""
        count = len(self.words)
        self.require(isinstance(getattr(self.cls, "name", None), str), "it has no name")
        for protocol in PROTOCOLS:
            found = self.cls.hyperparameters(count, protocol)
            wrong = f"hyperparameters({count}, {protocol!r}) returned {type(found).__name__}"
            self.require(isinstance(found, Hyperparameters), f"{wrong}, not Hyperparameters")
        layout = self.cls.layout_for(count, self.cls.hyperparameters(count).m)
        self.require(layout.slots == count, f"layout_for has {layout.slots} word slots")

    def start(self) -> None:
        """The parameters are all that is trained, and the seed decides how they start."""
        learner, again, other = (dict(self.make(seed).named_parameters()) for seed in (1, 1, 2))
        self.require(self.make().state_dict().keys() == learner.keys(), "it has buffers")
        for name, value in learner.items():
            trained = value.is_leaf and value.requires_grad and value.dtype == torch.float32
            self.require(trained, f"the parameter {name} must be a leaf, in fp32, with gradients")
            self.require(value.isfinite().all(), f"the parameter {name} does not start finite")
            drawn = torch.equal(value, again[name])
            self.require(drawn, f"the same seed starts {name} elsewhere; use build's generator")
        moved = any(not torch.equal(value, other[name]) for name, value in learner.items())
        self.require(moved or not self.words, "another seed does not start elsewhere")

    @torch.no_grad()
    def logits(self) -> None:
        """Features and logits have their shapes, and an image's do not depend on the others."""
        learner, size = self.make(), (len(LABELS), self.backbone.feature_dim)
        images = learner.image_features(self.pixels)
        self.require(images.shape == size, f"image_features returned {tuple(images.shape)}")
        plain = learner.prompts_images or torch.allclose(images, self.frozen, atol=1e-4)
        self.require(plain, "image_features are not the frozen tower's; set prompts_images = True")
        logits = learner.logits(images)
        size = (len(LABELS), len(NAMES))
        self.require(logits.shape == size, f"logits are {tuple(logits.shape)}, not {size}")
        self.require(logits.isfinite().all(), "logits are not finite")
        singly = [learner.logits(learner.image_features(one[None])) for one in self.pixels]
        apart = torch.allclose(torch.cat(singly), logits, atol=CLOSE)
        self.require(apart, "the logits of an image depend on the other images")
        none = tuple(learner.logits(images[:0]).shape)
        self.require(none == (0, len(NAMES)), f"the logits of no images are {none}")

    def placing(self) -> None:
        """Every word changes the prediction."""
        learner = self.make(placed=False)
        before = self.logits_of(learner)
        for word in self.words:
            learner.place_word(word)
            after = self.logits_of(learner)
            self.require(not torch.allclose(before, after), f"place_word({word!r}) has no effect")
            before = after
        self.require(learner.words == self.words, "learner.words are not those that were placed")

    def training(self) -> None:
        """The loss reaches every parameter and falls, and nothing but the parameters changes."""
        learner, model = self.make(), self.backbone.model
        fixed = {name: value.clone() for name, value in model.state_dict().items()}
        batch = Batch(
            torch.tensor(LABELS, device=self.backbone.device),
            self.frozen if learner.wants_features else None,
            self.pixels if learner.prompts_images else None,
        )
        rate = self.cls.hyperparameters(len(self.words)).lr
        optimiser = torch.optim.SGD(learner.parameters(), rate)
        losses: list[float] = []
        reached: set[str] = set()
        for _ in range(STEPS + 1):
            optimiser.zero_grad()
            loss = learner.loss(batch)
            scalar = isinstance(loss, Tensor) and not loss.ndim and loss.requires_grad
            self.require(scalar, "loss must return a single number as a tensor with gradients")
            self.require(loss.isfinite(), f"the loss is {loss}")
            loss.backward()
            losses.append(loss.item())
            gradients = ((name, value.grad) for name, value in learner.named_parameters())
            reached |= {name for name, each in gradients if each is not None and each.any()}
            optimiser.step()
        idle = sorted(name for name, _ in learner.named_parameters() if name not in reached)
        self.require(not idle, f"the loss gives no gradient to {', '.join(idle)}")
        fell = min(losses[1:]) < losses[0]
        shown = " ".join(f"{each:.3g}" for each in losses)
        self.require(fell, f"{STEPS} steps on four images do not lower the loss: {shown}")
        kept = all(torch.equal(value, fixed[name]) for name, value in model.state_dict().items())
        learns = any(value.requires_grad for value in model.parameters())
        self.require(kept and not learns, "training changes the backbone, which is frozen")

    def copies(self) -> None:
        """A state makes another learner the same, and other classes keep the vectors."""
        learner, other = self.make(), self.make(seed=2)
        logits = self.logits_of(learner)
        other.load_state_dict(learner.state_dict())
        same = torch.allclose(self.logits_of(other), logits, atol=CLOSE)
        self.require(same, "load_state_dict does not make another learner the same")
        turned = self.logits_of(learner.rebuilt(class_names=NAMES[::-1]))
        same = torch.allclose(turned, logits.flip(1), atol=CLOSE)
        self.require(same, "the order of the classes changes their logits")
        try:
            fewer = learner.rebuilt(class_names=("dog", "cat"))
        except RuntimeError as error:  # a parameter that has the size of the classes
            raise AssertionError(f"{self.cls.__name__}, for other classes: {error}") from error
        state = fewer.state_dict()
        kept = all(torch.equal(value, state[name]) for name, value in learner.state_dict().items())
        self.require(kept and fewer.words == self.words, "rebuilt loses vectors or words")
        size = tuple(self.logits_of(fewer).shape)
        self.require(size == (len(LABELS), 2), f"logits of two other classes are {size}")
