"""The page's fields and buttons, section by section, without what they do."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ipl.apps.workbench.fit_thread import BOUNDS, WorkbenchSettings, default_epochs
from ipl.apps.workbench.image_classes import MIB
from ipl.apps.workbench.rendering import box, paragraph
from ipl.apps.workbench.sessions import Workbench
from ipl.learners.registry import known_learners

LEAD = (
    "Teach a frozen CLIP to distinguish your classes of images, with a prompt that you can read. "
    "Images stay on the machine that runs this page, and are removed when you close it."
)


def html(value: str = "", **options: Any) -> Any:
    """Returns an area for HTML of our own."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **options)


def heading(title: str, hint: str) -> None:
    """Adds the heading of a section."""
    html(f'<div class="ipl"><h2>{title}</h2><p class="quiet">{hint}</p></div>')


def class_choice(label: str, name: str) -> Any:
    """Returns a choice of a class; a Dropdown would open whenever it gets the focus."""
    return gr.Radio([], label=label, elem_id=name, elem_classes="choices")


class ImagesForm:
    """The images: uploads, drawn scenes, or a folder."""

    def __init__(self, workbench: Workbench) -> None:
        megabytes = f"{workbench.limits.max_bytes / MIB:.3g}"
        heading("1 Images", "At least two classes, with a handful of images each.")
        with gr.Row():
            with gr.Column(min_width=280):
                self.name = gr.Textbox(
                    label="Name of the class", placeholder="cat", max_lines=1, elem_id="class-name"
                )
                self.files = gr.File(
                    label=f"Images of this class, up to {megabytes} MB each",
                    file_count="multiple",
                    height=150,
                    elem_id="class-files",
                )
                self.add = gr.Button("Add class", variant="primary", elem_id="add-class")
            with gr.Column(min_width=280):
                self.scenes = gr.Button("Use the drawn scenes", elem_id="scenes")
                self.folder = gr.Textbox(
                    label="Or a folder with one sub-folder per class, or a CSV file",
                    placeholder="/home/me/images",
                    max_lines=1,
                    visible=workbench.browse,
                    elem_id="folder",
                )
                self.use = gr.Button("Use folder", visible=workbench.browse, elem_id="use-folder")
                with gr.Accordion("Remove a class", open=False, visible=False) as self.removing:
                    self.choice = class_choice("Class to remove", "remove-which")
                    self.remove = gr.Button("Remove class", elem_id="remove")
        self.message = html(elem_id="images-message")
        self.classes = html(elem_id="classes")


class LearnForm:
    """The settings of a fit, and its progress."""

    def __init__(self, settings: WorkbenchSettings) -> None:
        heading("2 Learn", "First the words are searched, then the vectors around them trained.")
        with gr.Row():
            with gr.Column(scale=1, min_width=260):
                self.learner = gr.Radio(
                    list(known_learners()),
                    value=settings.learner,
                    label="Learner",
                    elem_id="learner",
                )
                self.words = gr.Slider(
                    *BOUNDS["words"], value=settings.words, step=1, label="Words", elem_id="words"
                )
                self.compare = gr.Checkbox(
                    settings.compare,
                    label="Train it without words too, to compare",
                    elem_id="compare",
                )
                with gr.Accordion("Shots, epochs, seed", open=False):
                    self.shots = self._number("shots", "Training images per class", settings.shots)
                    self.epochs = self._number(
                        "epochs", "Epochs", default_epochs(settings.learner, settings.words)
                    )
                    self.seed = self._number("seed", "Seed", settings.seed)
                with gr.Row():
                    self.learn = gr.Button(
                        "Learn", variant="primary", elem_id="learn", min_width=100
                    )
                    self.cancel = gr.Button(
                        "Cancel", interactive=False, elem_id="cancel", min_width=100
                    )
            with gr.Column(scale=3, min_width=300):
                self.message = html(elem_id="learn-message")
                self.status = html(elem_id="status")
                self.outcome = html(elem_id="outcome")
        self.fields = [self.learner, self.words, self.shots, self.epochs, self.seed, self.compare]

    @staticmethod
    def _number(name: str, label: str, value: int) -> Any:
        # Without bounds here: WorkbenchSettings checks them and explains what is allowed.
        return gr.Number(value, label=label, elem_id=name)


class WordForm:
    """A word of one's own."""

    def __init__(self) -> None:
        heading("3 A word of your own", "How much it would gain on these images.")
        with gr.Row(equal_height=True):
            self.word = gr.Textbox(
                label="Word", placeholder="furry", max_lines=1, scale=3, elem_id="word"
            )
            self.score = gr.Button("Show its gain", scale=1, min_width=120, elem_id="score-word")
        self.message = html(elem_id="word-message")
        self.gain = html(elem_id="word-gain")


class UseForm:
    """Classifying, other classes, and the download of the prompt."""

    def __init__(self) -> None:
        heading("4 Classify", "An image into these classes, or into others that need no images.")
        with gr.Row():
            with gr.Column(min_width=280):
                self.file = gr.File(
                    label="An image: drop it here, or click", height=150, elem_id="image"
                )
            with gr.Column(min_width=280):
                self.name = gr.Textbox(label="Another class", max_lines=1, elem_id="more-name")
                self.add = gr.Button("Add this class", elem_id="add-name")
                with gr.Accordion("Leave out a class", open=False, visible=False) as self.removing:
                    self.choice = class_choice("Class to leave out", "names")
                    self.remove = gr.Button("Leave it out", elem_id="remove-name")
        self.message = html(elem_id="use-message")
        self.ranking = html(elem_id="ranking")
        heading(
            "5 Download",
            "A folder of three small files that <code>ipl predict</code> and Python can load.",
        )
        self.download = gr.DownloadButton(
            "Download the prompt", interactive=False, elem_id="download"
        )
        self.text = html(elem_id="prompt-text")


class Form:
    """All sections, top to bottom."""

    def __init__(self, workbench: Workbench, settings: WorkbenchSettings) -> None:
        html(box("<h1>ipl workbench</h1>", paragraph(LEAD, "quiet")))
        self.session = html(elem_id="session")  # its key, which page.js sends with uploads
        self.images = ImagesForm(workbench)
        self.learn = LearnForm(settings)
        self.word = WordForm()
        self.use = UseForm()
