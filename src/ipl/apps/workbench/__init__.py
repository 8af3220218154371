"""A page to try everything out: images, words, training, predictions. Needs `ipl[ui]`."""

from ipl.apps.extras import require

require("The workbench", "ui", "gradio")
