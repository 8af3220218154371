"""A page to try everything on: images, words, training, predictions. Needs the extra `ipl[ui]`."""

from ipl.apps import require

require("The workbench", "ui", "gradio")
