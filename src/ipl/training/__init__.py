"""Training the soft vectors: Algorithm 1, its schedule, its views of the images, its record."""

from ipl.training.loop import train
from ipl.training.record import EpochRecord, TrainingRecord
from ipl.training.schedule import learning_rate, word_epochs
from ipl.training.shots import Seen, draw_shots, look
from ipl.training.views import CachedViews, FreshViews, View, make_views

__all__ = [
    "CachedViews",
    "EpochRecord",
    "FreshViews",
    "Seen",
    "TrainingRecord",
    "View",
    "draw_shots",
    "learning_rate",
    "look",
    "make_views",
    "train",
    "word_epochs",
]
