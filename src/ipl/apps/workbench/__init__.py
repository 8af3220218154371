"""A page to try everything out: images, words, training, predictions. Needs `ipl[ui]`."""

from ipl.apps.extras import require

require("ipl ui", "ui", "gradio")
