"""The page: what its buttons do, and what they change on it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from ipl.apps.workbench import html_parts as parts
from ipl.apps.workbench import rendering as shown
from ipl.apps.workbench.fit_thread import BUG
from ipl.apps.workbench.form import Form
from ipl.apps.workbench.image_classes import named
from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings, usual_epochs
from ipl.apps.workbench.workbench import Workbench
from ipl.support.errors import IplError

Changes = dict[Any, Any]  # components and their new values
SECONDS_BETWEEN_LOOKS = 0.3
TITLE = "ipl workbench"


def build_page(bench: Workbench) -> Any:
    """Returns the page of a workbench; each browser that opens it has a session of its own."""
    with gr.Blocks(analytics_enabled=False, title=TITLE, delete_cache=(600, 86_400)) as page:
        form = Form(bench, _first_settings(bench))
        _Desk(bench, form).wire(page)
    page.queue(default_concurrency_limit=None, api_open=False)
    return page


def _first_settings(bench: Workbench) -> WorkbenchSettings:
    """Returns what the form starts with: as the prompt was made, where there is one."""
    if bench.classifier is None:
        return WorkbenchSettings()
    made = bench.classifier.training_
    try:
        return WorkbenchSettings(
            bench.classifier.learner,
            len(bench.classifier.words_),
            int(made.get("shots", 16)),
            seed=int(made.get("seed", 1)),
        )
    except IplError:
        return WorkbenchSettings()


class _Desk:
    """Takes what a browser sends to its session, and the session's state to the browser."""

    def __init__(self, bench: Workbench, form: Form) -> None:
        self.bench, self.form = bench, form

    def wire(self, page: Any) -> None:
        """Connects every button."""
        form, quiet = self.form, {"api_visibility": "private", "show_progress": "hidden"}
        first, learn, word, use = form.image_classes, form.learn, form.word, form.use
        image_classes = [first.classes, first.removing, first.which, first.message]
        image_classes += [first.name, first.files, learn.status, learn.outcome, learn.message]
        prompt = [use.removing, use.which, use.ranking, use.download, use.text]
        live = [learn.status, learn.outcome, learn.learn, learn.cancel, learn.message]
        everything = [*image_classes, learn.learn, learn.cancel, *prompt]

        def on(
            events: Sequence[Any],
            inputs: Sequence[Any],
            outputs: Sequence[Any],
            message: Any,
            act: Any,
            result: Any = None,
        ) -> None:
            handler = self._answer(act, message, result)
            gr.on(events, handler, list(inputs), list(outputs), **quiet)

        page.load(self._open, None, everything, **quiet)
        page.unload(self._close)
        on([first.files.upload], [first.files], [first.message], first.message, self.hand_over)
        add = [first.add.click, first.name.submit]
        on(add, [first.name, first.files], image_classes, first.message, self.add_class)
        on([first.scenes.click], [], image_classes, first.message, self.use_scenes)
        use_folder = [first.use.click, first.folder.submit]
        on(use_folder, [first.folder], image_classes, first.message, self.use_folder)
        on([first.remove.click], [first.which], image_classes, first.message, self.remove_class)
        learn.learn.click(self.learn, learn.settings, [*live, *prompt], **quiet)
        stopped = [learn.cancel, learn.status, learn.message]
        on([learn.cancel.click], [], stopped, learn.message, self.cancel)
        learn.learner.input(usual_epochs, [learn.learner, learn.words], learn.epochs, **quiet)
        weigh = [word.weigh.click, word.word.submit]
        inputs = [word.word, learn.shots, learn.seed]
        on(weigh, inputs, [word.weighed, word.message], word.message, self.weigh, word.weighed)
        using = [*prompt, use.message, use.file, use.name]
        on([use.file.upload], [use.file], using, use.message, self.classify, use.ranking)
        on(
            [use.add.click, use.name.submit],
            [use.name],
            using,
            use.message,
            self.add_name,
            use.ranking,
        )
        on([use.remove.click], [use.which], using, use.message, self.remove_name)

    # -- sessions -------------------------------------------------------------------------------

    def _open(self, request: gr.Request) -> Changes:
        session = self.bench.open(request.session_hash)
        return {**self._images(session), **self._live(session), **self._prompt(session)}

    def _close(self, request: gr.Request) -> None:
        self.bench.close(request.session_hash)

    def _answer(
        self, act: Callable[..., Changes], message: Any, result: Any
    ) -> Callable[..., Changes]:
        """Returns a handler that says what is wrong on the page, next to what was asked.

        The `result` of an earlier question, if there is one, does not stay below it.
        """
        without = {} if result is None else {result: ""}

        def handle(request: gr.Request, *values: Any) -> Changes:
            try:
                return {message: "", **act(self.bench.session(request.session_hash), *values)}
            except IplError as error:
                return {message: _error(str(error)), **without}
            except Exception:  # a bug
                traceback.print_exc()
                return {message: _error(BUG), **without}

        return handle

    # -- what buttons do ------------------------------------------------------------------------

    def hand_over(self, session: Session, files: list[str] | None) -> Changes:
        """Remembers files that were dropped, so that they go with their session."""
        session.handed_over.update(Path(file) for file in files or ())
        return {}

    def add_class(self, session: Session, name: str, files: list[str] | None) -> Changes:
        """Takes the images of a class."""
        refused = session.add_class(name, [Path(file) for file in files or ()])
        form, told = self.form.image_classes, ""
        if refused:
            told = parts.box(parts.text(f"Left out: {named(refused)}", "warning"))
        cleared = {form.name: "", form.files: None}
        return {**self._images(session), **cleared, form.message: told}

    def use_scenes(self, session: Session) -> Changes:
        """Takes the drawn scenes."""
        session.use_scenes()
        return self._images(session)

    def use_folder(self, session: Session, path: str) -> Changes:
        """Takes a folder of this machine."""
        session.use_folder(path)
        return self._images(session)

    def remove_class(self, session: Session, name: str | None) -> Changes:
        """Takes a class away."""
        session.remove_class(name)
        return self._images(session)

    async def learn(self, request: gr.Request, *values: Any) -> AsyncIterator[Changes]:
        """Starts a fit and shows how it goes until it ends."""
        form = self.form.learn
        try:
            session = self.bench.session(request.session_hash)
            fit = session.learn(WorkbenchSettings.read(*values))
        except IplError as error:
            yield {form.message: _error(str(error))}
            return
        shown_last = None
        while not fit.ended:
            now = (fit.state, fit.watcher.cancelled, fit.watcher.progress.number)
            if now != shown_last:
                yield {form.message: "", **self._live(session)}
                shown_last = now
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        last = await asyncio.to_thread(lambda: {**self._live(session), **self._prompt(session)})
        yield {form.message: "", **last}

    def cancel(self, session: Session) -> Changes:
        """Stops the fit."""
        session.cancel()
        form = self.form.learn
        return {form.cancel: gr.Button(interactive=False), form.status: shown.status(session)}

    def weigh(self, session: Session, word: str, shots: Any, seed: Any) -> Changes:
        """Shows what a typed word would bring."""
        wanted = WorkbenchSettings.read("coop", 0, shots, 1, seed)
        found = session.weigh(word, wanted.shots, wanted.seed)
        in_pool = found.steps[-1].typed.word in self.bench.candidates
        return {self.form.word.weighed: shown.weighed(found, in_pool)}

    def classify(self, session: Session, file: str | None) -> Changes:
        """Shows what the prompt sees in an image."""
        form = self.form.use
        if file is None:
            return {}
        try:
            session.classify(Path(file))
        except IplError as error:
            told = _error(named([str(error)]))
            return {form.message: told, form.file: None, form.ranking: ""}
        return {form.ranking: shown.ranking(session), form.file: None}

    def add_name(self, session: Session, name: str) -> Changes:
        """Lets the prompt tell one more class apart."""
        session.add_name(name)
        return {**self._prompt(session), self.form.use.name: ""}

    def remove_name(self, session: Session, name: str | None) -> Changes:
        """Lets the prompt tell one class fewer apart."""
        session.remove_name(name)
        return self._prompt(session)

    # -- what the page shows --------------------------------------------------------------------

    def _images(self, session: Session) -> Changes:
        form, names = self.form.image_classes, list(session.image_classes.names)
        learn = self.form.learn
        changes = {learn.message: ""}  # what was wrong with other images
        if not session.learning:
            changes |= {learn.status: shown.status(session), learn.outcome: shown.outcome(session)}
        return {
            **changes,
            form.classes: shown.classes(session),
            form.removing: gr.Accordion(visible=bool(names)),
            form.which: gr.Radio(names, value=None),
        }

    def _live(self, session: Session) -> Changes:
        form, busy = self.form.learn, session.learning
        cancelling = session.fit is not None and session.fit.watcher.cancelled
        return {
            form.status: shown.status(session),
            form.outcome: shown.outcome(session),
            form.learn: gr.Button(interactive=not busy),
            form.cancel: gr.Button(interactive=busy and not cancelling),
        }

    def _prompt(self, session: Session) -> Changes:
        form, names, classifier = self.form.use, list(session.names), session.classifier
        changes = {
            form.removing: gr.Accordion(visible=bool(names)),
            form.which: gr.Radio(names, value=None),
            form.ranking: shown.ranking(session),
        }
        if classifier is not None:
            file = str(session.download())
            changes[form.download] = gr.DownloadButton(value=file, interactive=True)
            changes[form.text] = parts.box(parts.code("The prompt as text", classifier.prompt_))
        return changes


def _error(sentence: str) -> str:
    return parts.box(parts.text(sentence, "error"))
