"""Whether shots that were drawn again are those that a saved run was trained on."""

from __future__ import annotations

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.learners.learner import Learner
from ipl.metrics import score
from ipl.training.fit import features_for
from ipl.training.result import FitResult
from ipl.words.scorer import SentenceScorer
from ipl.words.template import Template

SAME_LOSS = 1e-3  # two computations of one loss on different machines differ by far less


def how_shots_differ(result: FitResult, learner: Learner, shots: LabelledFeatures) -> str | None:
    """Returns how these shots differ from those of the training, None if they are the same.

    They must give the loss without words that was saved with the run or, where no words were
    searched, its training accuracy. `learner` is the run's, for the classes it was trained on.
    """
    if result.images != len(shots.items):
        return f"{len(shots.items)} training images were drawn; the run had {result.images}"
    selection = result.selection
    if selection is not None and selection.select_in == "sentence":
        scorer = SentenceScorer(
            learner.backbone,
            learner.prompts.class_names,
            shots.features,
            shots.labels,
            Template(selection.template),
        )
        loss, saved_loss = scorer.loss([]), selection.loss_without_words
        if abs(loss - saved_loss) < SAME_LOSS:
            return None
        return f"the loss without words is {loss:.4f}; it was {saved_loss:.4f}"
    log_probabilities = learner.log_probabilities(features_for(learner, shots))
    accuracy, saved = score(log_probabilities, shots.labels).accuracy, result.train_accuracy
    if abs(accuracy - saved) < 1.5 / len(shots.items):
        return None
    return f"the training accuracy is {100 * accuracy:.1f} %; it was {100 * saved:.1f} %"
