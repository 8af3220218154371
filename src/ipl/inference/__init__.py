"""Using a fitted classifier: predictions in a stream, and exports for other programs."""

from ipl.inference.stream import Prediction, predict_stream

__all__ = ["Prediction", "predict_stream"]
