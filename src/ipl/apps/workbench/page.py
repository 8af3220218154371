"""The page: what its buttons do, what they change on it, and how it looks."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import gradio as gr

from ipl.apps.workbench import rendering
from ipl.apps.workbench.fit_thread import BUG_MESSAGE, WorkbenchSettings, default_epochs
from ipl.apps.workbench.form import Form
from ipl.apps.workbench.image_classes import join_messages
from ipl.apps.workbench.rendering import box, code_line, paragraph
from ipl.apps.workbench.sessions import Session, Workbench
from ipl.support.errors import IplError

Changes = dict[Any, Any]  # components and their new values
SECONDS_BETWEEN_UPDATES = 1.0  # of a fit's progress; drawing its plots takes a fifth of that
TITLE = "ipl workbench"


def build_page(workbench: Workbench) -> Any:
    """Returns the page of a workbench; each browser that opens it has a session of its own."""
    with gr.Blocks(analytics_enabled=False, title=TITLE, delete_cache=(600, 86_400)) as page:
        form = Form(workbench, _initial_settings(workbench))
        _Handlers(workbench, form).connect(page)
    page.queue(default_concurrency_limit=None, api_open=False)
    return page


def _initial_settings(workbench: Workbench) -> WorkbenchSettings:
    """Returns the settings that the form starts with: those of the saved prompt, if any."""
    if workbench.classifier is None:
        return WorkbenchSettings()
    result = workbench.classifier.result_
    config = result.config
    try:
        return WorkbenchSettings(config.learner, len(result.words), config.shots, seed=config.seed)
    except IplError:
        return WorkbenchSettings()


class _Handlers:
    """What happens when a person uses the form: calls a session, and returns what changes."""

    def __init__(self, workbench: Workbench, form: Form) -> None:
        self.workbench, self.form = workbench, form

    def connect(self, page: Any) -> None:
        """Connects every button and field with its handler."""
        form, options = self.form, {"api_visibility": "private", "show_progress": "hidden"}
        images, learn, word, use = form.images, form.learn, form.word, form.use
        image_outputs = [images.classes, images.removing, images.choice, images.message]
        image_outputs += [images.name, images.files, learn.status, learn.outcome, learn.message]
        prompt_outputs = [use.removing, use.choice, use.ranking, use.download, use.text]
        fit_outputs = [learn.status, learn.outcome, learn.learn, learn.cancel, learn.message]
        use_outputs = [*prompt_outputs, use.message, use.file, use.name]
        every_output = [*image_outputs, learn.learn, learn.cancel, *prompt_outputs, form.session]

        def on(
            events: Sequence[Any],
            inputs: Sequence[Any],
            outputs: Sequence[Any],
            message: Any,
            action: Any,
            result: Any = None,
        ) -> None:
            handler = self._handler(action, message, result)
            gr.on(events, handler, list(inputs), list(outputs), **options)

        page.load(self._open, None, every_output, **options)
        page.unload(self._close)
        add = [images.add.click, images.name.submit]
        on(add, [images.name, images.files], image_outputs, images.message, self.add_class)
        on([images.scenes.click], [], image_outputs, images.message, self.use_scenes)
        use_folder = [images.use.click, images.folder.submit]
        on(use_folder, [images.folder], image_outputs, images.message, self.use_folder)
        remove = [images.remove.click]
        on(remove, [images.choice], image_outputs, images.message, self.remove_class)
        learn.learn.click(self.learn, learn.fields, [*fit_outputs, *prompt_outputs], **options)
        cancel_outputs = [learn.cancel, learn.status, learn.message]
        on([learn.cancel.click], [], cancel_outputs, learn.message, self.cancel)
        changed = [learn.learner.input, learn.words.release]
        gr.on(changed, default_epochs, [learn.learner, learn.words], learn.epochs, **options)
        score = [word.score.click, word.word.submit]
        inputs = [word.word, learn.shots, learn.seed]
        on(score, inputs, [word.gain, word.message], word.message, self.score_word, word.gain)
        on([use.file.upload], [use.file], use_outputs, use.message, self.classify, use.ranking)
        add_name = [use.add.click, use.name.submit]
        on(add_name, [use.name], use_outputs, use.message, self.add_name, use.ranking)
        on([use.remove.click], [use.choice], use_outputs, use.message, self.remove_name)

    # -- sessions -------------------------------------------------------------------------------

    def _open(self, request: gr.Request) -> Changes:
        session = self.workbench.open(request.session_hash)
        return {
            **self._image_changes(session),
            **self._fit_changes(session),
            **self._prompt_changes(session),
            self.form.session: f"<span hidden>{escape(str(request.session_hash))}</span>",
        }

    def _close(self, request: gr.Request) -> None:
        self.workbench.close(request.session_hash)

    def _handler(
        self, action: Callable[..., Changes], message: Any, result: Any
    ) -> Callable[..., Changes]:
        """Returns a handler that shows an error in `message` and clears an earlier `result`."""
        cleared = {} if result is None else {result: ""}

        def handle(request: gr.Request, *values: Any) -> Changes:
            try:
                session = self.workbench.session(request.session_hash)
                return {message: "", **action(session, *values)}
            except IplError as error:
                return {message: _error(str(error)), **cleared}
            except Exception:  # a bug
                traceback.print_exc()
                return {message: _error(BUG_MESSAGE), **cleared}

        return handle

    # -- actions --------------------------------------------------------------------------------

    def add_class(self, session: Session, name: str, files: list[str] | None) -> Changes:
        """Adds images of a class."""
        messages = session.add_class(name, session.uploaded(files or ()))
        form, warning = self.form.images, ""
        if messages:
            warning = box(paragraph(f"Left out: {join_messages(messages)}", "warning"))
        cleared = {form.name: "", form.files: None}
        return {**self._image_changes(session), **cleared, form.message: warning}

    def use_scenes(self, session: Session) -> Changes:
        """Replaces the images by the drawn scenes."""
        session.use_scenes()
        return self._image_changes(session)

    def use_folder(self, session: Session, path: str) -> Changes:
        """Replaces the images by those of a folder of this machine."""
        session.use_folder(path)
        return self._image_changes(session)

    def remove_class(self, session: Session, name: str | None) -> Changes:
        """Removes a class."""
        session.remove_class(name)
        return self._image_changes(session)

    async def learn(self, request: gr.Request, *values: Any) -> AsyncIterator[Changes]:
        """Starts a fit and shows its progress until it ends."""
        form = self.form.learn
        try:
            session = self.workbench.session(request.session_hash)
            fit = session.learn(WorkbenchSettings.from_form(*values))
        except IplError as error:
            yield {form.message: _error(str(error))}
            return
        last_state = None
        while not fit.ended:
            state = (fit.state, fit.watcher.cancelled, fit.watcher.progress.changes)
            if state != last_state:
                changes = await asyncio.to_thread(self._fit_changes, session)
                yield {form.message: "", **changes}
                last_state = state
            await asyncio.sleep(SECONDS_BETWEEN_UPDATES)
        changes = await asyncio.to_thread(
            lambda: {**self._fit_changes(session), **self._prompt_changes(session)}
        )
        yield {form.message: "", **changes}

    def cancel(self, session: Session) -> Changes:
        """Cancels the fit."""
        session.cancel()
        form = self.form.learn
        return {form.cancel: gr.Button(interactive=False), form.status: rendering.status(session)}

    def score_word(self, session: Session, word: str, shots: Any, seed: Any) -> Changes:
        """Shows the gain of a typed word."""
        settings = WorkbenchSettings.from_form("coop", 0, shots, 1, seed)
        result = session.score_word(word, settings.shots, settings.seed)
        in_pool = result.steps[-1].typed.word in self.workbench.candidates
        return {self.form.word.gain: rendering.word_gain(result, in_pool)}

    def classify(self, session: Session, file: str | None) -> Changes:
        """Shows the probabilities of an image."""
        form = self.form.use
        if file is None:
            return {}
        try:
            session.classify(*session.uploaded([file]))
        except IplError as error:
            message = _error(join_messages([str(error)]))
            return {form.message: message, form.file: None, form.ranking: ""}
        return {form.ranking: rendering.ranking(session), form.file: None}

    def add_name(self, session: Session, name: str) -> Changes:
        """Adds a class to those that the prompt distinguishes."""
        session.add_name(name)
        return {**self._prompt_changes(session), self.form.use.name: ""}

    def remove_name(self, session: Session, name: str | None) -> Changes:
        """Removes a class from those that the prompt distinguishes."""
        session.remove_name(name)
        return self._prompt_changes(session)

    # -- changes on the page --------------------------------------------------------------------

    def _image_changes(self, session: Session) -> Changes:
        form, names = self.form.images, list(session.image_classes.names)
        learn = self.form.learn
        changes = {learn.message: ""}  # an error there was about other images
        if not session.learning:
            changes[learn.status] = rendering.status(session)
            changes[learn.outcome] = rendering.outcome(session)
        return {
            **changes,
            form.classes: rendering.classes(session),
            form.removing: gr.Accordion(visible=bool(names)),
            form.choice: gr.Radio(names, value=None),
        }

    def _fit_changes(self, session: Session) -> Changes:
        form, busy = self.form.learn, session.learning
        cancelling = session.fit is not None and session.fit.watcher.cancelled
        return {
            form.status: rendering.status(session),
            form.outcome: rendering.outcome(session),
            form.learn: gr.Button(interactive=not busy),
            form.cancel: gr.Button(interactive=busy and not cancelling),
        }

    def _prompt_changes(self, session: Session) -> Changes:
        form, names, classifier = self.form.use, list(session.names), session.classifier
        changes = {
            form.removing: gr.Accordion(visible=bool(names)),
            form.choice: gr.Radio(names, value=None),
            form.ranking: rendering.ranking(session),
        }
        if classifier is not None:
            file = str(session.download())
            changes[form.download] = gr.DownloadButton(value=file, interactive=True)
            changes[form.text] = box(code_line("The prompt as text", classifier.prompt_))
        return changes


def _error(sentence: str) -> str:
    return box(paragraph(sentence, "error"))


# -- colours and fonts --------------------------------------------------------------------------

FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
MONOSPACE_FONTS = ["ui-monospace", "Menlo", "Consolas", "monospace"]
BLUES = (  # from the lightest to the darkest
    "#f0f7fc", "#dcedf8", "#b9dbf1", "#8cc6ef", "#62b0e8", "#0065a3",
    "#005a91", "#00507f", "#00426a", "#003554", "#00243a",
)  # fmt: skip
COLOURS = {  # in light and in dark mode
    "body_background_fill": ("#ffffff", "#14181c"),
    "body_text_color": ("#1c2126", "#e8ebee"),
    "body_text_color_subdued": ("#545d66", "#a9b2bb"),
    "background_fill_primary": ("#ffffff", "#14181c"),
    "background_fill_secondary": ("#f3f5f7", "#1d2329"),
    "block_background_fill": ("#ffffff", "#14181c"),
    "block_label_text_color": ("#1c2126", "#e8ebee"),
    "block_title_text_color": ("#1c2126", "#e8ebee"),
    "block_info_text_color": ("#545d66", "#a9b2bb"),
    "border_color_primary": ("#c3cad1", "#48525c"),
    "block_border_color": ("#d5dae0", "#39424b"),
    "input_background_fill": ("#ffffff", "#1d2329"),
    "input_border_color": ("#8b949e", "#5d6873"),
    "input_placeholder_color": ("#6a737c", "#8f99a3"),
    "slider_color": ("#0065a3", "#62b0e8"),
    "button_primary_background_fill": ("#0065a3", "#62b0e8"),
    "button_primary_background_fill_hover": ("#00507f", "#8cc6ef"),
    "button_primary_text_color": ("#ffffff", "#14181c"),
    "button_secondary_background_fill": ("#f3f5f7", "#2a323a"),
    "button_secondary_background_fill_hover": ("#e4e8ec", "#39424b"),
    "button_secondary_text_color": ("#1c2126", "#e8ebee"),
    "button_secondary_border_color": ("#8b949e", "#5d6873"),
}


def theme() -> Any:
    """Returns a theme in the report's colours that fetches nothing from elsewhere."""
    values = {"input_border_width": "1px", "button_border_width": "1px"}
    for name, (light, dark) in COLOURS.items():
        values[name], values[f"{name}_dark"] = light, dark
    blue = gr.themes.Color(*BLUES)
    return gr.themes.Base(primary_hue=blue, font=FONTS, font_mono=MONOSPACE_FONTS).set(**values)


def style_sheet() -> str:
    """Returns the style sheet of the HTML that we write ourselves."""
    return (files("ipl.apps.workbench") / "style.css").read_text(encoding="utf-8")


def script() -> str:
    """Returns the script that tells the server which session an upload belongs to."""
    text = (files("ipl.apps.workbench") / "page.js").read_text(encoding="utf-8")
    return f"<script>{text}</script>"
