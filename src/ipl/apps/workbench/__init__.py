"""A page to try everything out: images, words, training, predictions. Needs `ipl[ui]`."""

from ipl.support.extras import require

require("`ipl ui`", "ui", "gradio")
