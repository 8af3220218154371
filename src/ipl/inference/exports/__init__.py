"""A learnt prompt for the use of other programs: a matrix, ONNX, transformers, plain text."""

from ipl.inference.exports.classifier import class_matrix, export_classifier
from ipl.inference.exports.common import check_folder
from ipl.inference.exports.onnx import export_onnx
from ipl.inference.exports.text import export_text, plain_text
from ipl.inference.exports.transformers import export_transformers

__all__ = [
    "check_folder",
    "class_matrix",
    "export_classifier",
    "export_onnx",
    "export_text",
    "export_transformers",
    "plain_text",
]
