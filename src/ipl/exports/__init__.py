"""A learnt prompt for the use of other programs: a matrix, ONNX, transformers, plain text."""

from ipl.exports.common import check_folder
from ipl.exports.hugging_face import export_transformers
from ipl.exports.matrix import class_matrix, export_classifier
from ipl.exports.onnx_file import export_onnx
from ipl.exports.plain import export_text, plain_text

__all__ = [
    "check_folder",
    "class_matrix",
    "export_classifier",
    "export_onnx",
    "export_text",
    "export_transformers",
    "plain_text",
]
