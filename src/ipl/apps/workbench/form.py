"""The page's fields and buttons, section by section, before anything happens."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ipl.apps.workbench import html_parts as parts
from ipl.apps.workbench.image_classes import MIB
from ipl.apps.workbench.settings import BOUNDS, WorkbenchSettings, usual_epochs
from ipl.apps.workbench.workbench import Workbench
from ipl.learners.registry import known_learners

LEAD = (
    "Teach a frozen CLIP to tell your images apart, with a prompt that you can read. Images "
    "stay on the machine that runs this page, and are removed when you close it."
)


def html(value: str = "", **more: Any) -> Any:
    """Returns a place for what the page draws itself."""
    return gr.HTML(value, apply_default_css=False, js_on_load=None, **more)


def heading(title: str, hint: str) -> None:
    """Puts down the heading of a section."""
    html(f'<div class="ipl"><h2>{title}</h2><p class="quiet">{hint}</p></div>')


def choices(label: str, name: str) -> Any:
    """Returns a choice of one of the classes; a Dropdown would open whenever it is tabbed to."""
    return gr.Radio([], label=label, elem_id=name, elem_classes="choices")


class ImagesForm:
    """Where images come from."""

    def __init__(self, bench: Workbench) -> None:
        megabytes = f"{bench.limits.max_bytes / MIB:.3g}"
        heading("1 Images", "Two classes or more, a handful of images each.")
        with gr.Row():
            with gr.Column(min_width=280):
                self.name = gr.Textbox(
                    label="Name of the class", placeholder="cat", max_lines=1, elem_id="class-name"
                )
                self.files = gr.File(
                    label=f"Its images, up to {megabytes} MB each",
                    file_count="multiple",
                    height=150,
                    elem_id="class-files",
                )
                self.add = gr.Button("Add class", variant="primary", elem_id="add-class")
            with gr.Column(min_width=280):
                self.scenes = gr.Button("Try it with the drawn scenes", elem_id="scenes")
                self.folder = gr.Textbox(
                    label="Or a folder with a sub-folder per class, or a CSV file",
                    placeholder="/home/me/images",
                    max_lines=1,
                    visible=bench.browse,
                    elem_id="folder",
                )
                self.use = gr.Button("Use folder", visible=bench.browse, elem_id="use-folder")
                with gr.Accordion("Take a class away", open=False, visible=False) as self.removing:
                    self.which = choices("A class to take away", "remove-which")
                    self.remove = gr.Button("Remove class", elem_id="remove")
        self.message = html(elem_id="images-message")
        self.classes = html(elem_id="classes")


class LearnForm:
    """How to learn, and how it goes."""

    def __init__(self, first: WorkbenchSettings) -> None:
        heading("2 Learn", "Words are searched first, then the vectors between them are trained.")
        with gr.Row():
            with gr.Column(scale=1, min_width=260):
                self.learner = gr.Radio(
                    list(known_learners()), value=first.learner, label="Learner", elem_id="learner"
                )
                self.words = gr.Slider(
                    *BOUNDS["words"], value=first.words, step=1, label="Words", elem_id="words"
                )
                with gr.Accordion("Shots, epochs, seed", open=False):
                    self.shots = self._number("shots", "Images of each class", first.shots)
                    self.epochs = self._number(
                        "epochs", "Epochs", usual_epochs(first.learner, first.words)
                    )
                    self.seed = self._number("seed", "Seed", first.seed)
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
        self.settings = [self.learner, self.words, self.shots, self.epochs, self.seed]

    @staticmethod
    def _number(name: str, label: str, value: int) -> Any:
        # What is allowed is the settings' business, which say it in a sentence.
        return gr.Number(value, label=label, elem_id=name)


class WordForm:
    """A word of one's own."""

    def __init__(self) -> None:
        heading("3 A word of your own", "What it would bring on these images, in the same terms.")
        with gr.Row(equal_height=True):
            self.word = gr.Textbox(
                label="Word", placeholder="furry", max_lines=1, scale=3, elem_id="word"
            )
            self.weigh = gr.Button("Weigh it", scale=1, min_width=120, elem_id="weigh")
        self.message = html(elem_id="word-message")
        self.weighed = html(elem_id="weighed")


class UseForm:
    """Classifying, other classes, and the prompt to take away."""

    def __init__(self) -> None:
        heading("4 Classify", "An image into these classes, or into classes it has never seen.")
        with gr.Row():
            with gr.Column(min_width=280):
                self.file = gr.File(
                    label="An image: drop it here, or click", height=150, elem_id="image"
                )
            with gr.Column(min_width=280):
                self.name = gr.Textbox(
                    label="One more class to tell apart", max_lines=1, elem_id="more-name"
                )
                self.add = gr.Button("Add this class", elem_id="add-name")
                with gr.Accordion("Leave a class out", open=False, visible=False) as self.removing:
                    self.which = choices("A class to leave out", "names")
                    self.remove = gr.Button("Leave it out", elem_id="remove-name")
        self.message = html(elem_id="use-message")
        self.ranking = html(elem_id="ranking")
        heading(
            "5 Take it away",
            "A folder of three small files that <code>ipl predict</code> and Python read.",
        )
        self.download = gr.DownloadButton(
            "Download the prompt", interactive=False, elem_id="download"
        )
        self.text = html(elem_id="prompt-text")


class Form:
    """All of them, top to bottom."""

    def __init__(self, bench: Workbench, first: WorkbenchSettings) -> None:
        html(parts.box("<h1>ipl workbench</h1>", parts.text(LEAD, "quiet")))
        self.image_classes = ImagesForm(bench)
        self.learn = LearnForm(first)
        self.word = WordForm()
        self.use = UseForm()
