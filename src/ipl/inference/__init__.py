"""Using a fitted classifier: predictions in a stream, and exports for other programs."""

from ipl.inference.prediction_stream import Prediction, Ranking, predict_stream
from ipl.inference.prediction_writers import predictions_to_frame

__all__ = ["Prediction", "Ranking", "predict_stream", "predictions_to_frame"]
