"""Training the soft vectors: Algorithm 1, its schedule, its views of the images, its record."""

from ipl.training.fitting import (
    AUTO,
    MOST_WORDS,
    Fitted,
    Trial,
    check_words,
    features_for,
    fit_learner,
    most_words,
    numbers_to_try,
)
from ipl.training.learning import Learnt, learn
from ipl.training.loop import train
from ipl.training.record import EpochRecord, TrainingRecord
from ipl.training.schedule import learning_rate, word_epochs
from ipl.training.settings import FitSettings
from ipl.training.views import BankedViews, FreshViews, View, make_views

__all__ = [
    "AUTO",
    "MOST_WORDS",
    "BankedViews",
    "EpochRecord",
    "FitSettings",
    "Fitted",
    "FreshViews",
    "Learnt",
    "TrainingRecord",
    "Trial",
    "View",
    "check_words",
    "features_for",
    "fit_learner",
    "learn",
    "learning_rate",
    "make_views",
    "most_words",
    "numbers_to_try",
    "train",
    "word_epochs",
]
