"""`ipl ui`: a page on which to choose images, fit a prompt, see how good it is, and try it."""

from __future__ import annotations

import functools
import json
import os
import signal
import tempfile
import threading
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import gradio as gr
from pydantic import ValidationError
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from ipl.apps.hosts import allowed_hosts, is_allowed_host
from ipl.backbone.backbone import Backbone
from ipl.backbone.families import suggest_backbone
from ipl.backbone.loading import load_backbone
from ipl.classifier import PromptClassifier
from ipl.config import AUTO, MOST_WORDS, PAPER, FitConfig, Setting, fit_settings
from ipl.datasets.dataset import Dataset
from ipl.datasets.images import is_litter, thumbnail
from ipl.datasets.readers import MAC_ARCHIVE, read_dataset
from ipl.datasets.scenes import scenes_dataset
from ipl.display.formatting import percent, several
from ipl.inference.stream import Prediction, predict_stream
from ipl.learners.registry import known_learners
from ipl.prompts.layout import prompt_pieces
from ipl.saving.run_folder import CONFIG
from ipl.support.errors import ConfigError, DataError, IplError
from ipl.support.progress import SILENT, Advance, Reporter
from ipl.training.comparison import NO_IMAGES

SCENES = ("volcano", "lake", "castle", "windmill")  # an example that is quick to learn
MAX_UPLOAD = 2 * 10**9  # bytes of a file that a browser sends
MAX_UNPACKED, MAX_FILES = 8 * 10**9, 100_000  # bytes and files in an archive
MAX_SESSIONS = 20
MAX_CALL = 1_000_000  # bytes of a call, in which files are only named
SHOWN_CLASSES, SHOWN_PROBABILITIES = 12, 3
SECONDS_TO_END = 3.0  # that a cancelled fit has when the program ends
FIELDS = ("learner", "words", "words_given", "shots", "epochs")  # of FitConfig

Handler = TypeVar("Handler", bound=Callable[..., Any])


class FitCancelled(Exception):
    """The person has cancelled the fit."""


class FitReporter(Reporter):
    """Shows the progress of a fit on the page, and ends the fit soon after it was cancelled."""

    def __init__(self, progress: Any, cancelled: threading.Event) -> None:
        super().__init__(quiet=True)
        self.progress, self.cancelled = progress, cancelled

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        done = 0

        def advance(steps: int = 1, note: str = "") -> None:
            nonlocal done
            done += steps
            if self.cancelled.is_set():
                raise FitCancelled("Cancelled. The same fit goes on from where it was.")
            self.progress(min(done / total, 1.0) if total else 0.0, desc=f"{title} {note}")

        advance(0)
        yield advance


@dataclass
class Session:
    """What one browser tab has chosen and learnt."""

    data: Path | None = None
    classifier: PromptClassifier | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)


def _explained(handler: Handler) -> Handler:
    """Show a user's error on the page; a bug gets its traceback in the terminal."""

    @functools.wraps(handler)
    def call(*args: Any, **more: Any) -> Any:
        try:
            return handler(*args, **more)
        except (IplError, FitCancelled) as error:  # Gradio displays the message as HTML
            message = escape(str(error), quote=False)
            raise gr.Error(message, duration=None, print_exception=False) from None

    return call  # type: ignore[return-value]


class Workbench:
    """What the page does: one session for each tab, and one fit at a time on this machine."""

    def __init__(
        self,
        folder: Path,
        runs: Path,
        backbone: str = FitConfig.backbone,
        device: str = FitConfig.device,
        start: Session | None = None,
        local: bool = True,
    ) -> None:
        self.folder, self.runs = folder, runs  # for uploads, and for what is saved
        self.local = local  # whether folders of this machine may be named
        self.start = start or Session()  # with which a new tab starts
        self.backbone_name, self.device = backbone, device
        self._backbone: Backbone | None = None  # once it is needed
        if self.start.classifier is not None:
            self._backbone = self.start.classifier.learner_.backbone
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock, self._fitting = threading.Lock(), threading.Lock()

    def session(self, request: gr.Request) -> Session:
        """The session of a tab; beyond MAX_SESSIONS the one unused for longest is closed."""
        key = str(request.session_hash)
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = Session(self.start.data, self.start.classifier)
            self._sessions.move_to_end(key)
            if len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)[1].cancelled.set()
            return self._sessions[key]

    def close(self, request: gr.Request) -> None:
        """Forget a tab that was closed, and stop its fit."""
        with self._lock:
            session = self._sessions.pop(str(request.session_hash), None)
        if session is not None:
            session.cancelled.set()

    def end(self) -> bool:
        """Stop all fits; returns whether none is running any more."""
        with self._lock:
            for session in self._sessions.values():
                session.cancelled.set()
        return self._fitting.acquire(timeout=SECONDS_TO_END)

    # -- images -------------------------------------------------------------------------------

    @_explained
    def use_folder(self, text: str, request: gr.Request) -> str:
        if not self.local:
            raise DataError("Folders can be named only where the page is for this machine alone.")
        if not (text or "").strip():
            raise DataError("No folder is given; type its path.")
        return self._use(Path(text.strip()).expanduser(), request)

    @_explained
    def use_upload(self, file: str | None, request: gr.Request) -> str:
        if file is None:
            raise DataError("No file was uploaded; choose a .zip file.")
        folder = unpack(Path(file), self.folder)
        dataset = read_dataset(folder)
        for item in (*dataset.train, *dataset.test):  # a table may have any path
            if not Path(str(item.path)).resolve().is_relative_to(folder.resolve()):
                raise DataError(f"{Path(file).name} names {item.path}, which is outside of it.")
        return self._use(folder, request)

    @_explained
    def use_scenes(self, request: gr.Request) -> str:
        folder = self.folder / "scenes"
        scenes_dataset(folder, classes=SCENES)
        return self._use(folder, request)

    def _use(self, path: Path, request: gr.Request) -> str:
        shown = dataset_html(read_dataset(path))
        self.session(request).data = path
        return shown

    # -- fitting ------------------------------------------------------------------------------

    @_explained
    def fit(
        self,
        learner: str,
        words: str,
        words_given: str,
        shots: str,
        epochs: str,
        request: gr.Request,
        progress: Any = gr.Progress(),  # noqa: B008  Gradio finds it by its default
    ) -> tuple[str, str]:
        session = self.session(request)
        session.cancelled.clear()
        if session.data is None:
            raise DataError("There are no images yet; choose some under Images.")
        texts = (learner, words, words_given, shots, epochs)
        given = {name: text for name, text in zip(FIELDS, texts, strict=True) if text}
        machine = {"backbone": self.backbone_name, "device": self.device}
        config = FitConfig.from_dict({**given, **machine})
        if not self._fitting.acquire(blocking=False):
            raise DataError("Another fit is running on this machine; try again when it has ended.")
        try:
            progress(0.0, desc="Loading")
            if self._backbone is None:
                self._backbone = load_backbone(self.backbone_name, self.device)
            classifier = PromptClassifier(
                **{**config.as_dict(), "backbone": self._backbone},
                reporter=FitReporter(progress, session.cancelled),
            )
            classifier.fit(session.data)
        finally:
            self._fitting.release()
        session.classifier = classifier.set_params(reporter=SILENT)
        return self._shown(session)

    def cancel(self, request: gr.Request) -> None:
        self.session(request).cancelled.set()

    def _shown(self, session: Session) -> tuple[str, str]:
        """The result, and the name under which it would be saved."""
        assert session.classifier is not None
        result = session.classifier.result_
        return result_html(session.classifier), result.config.run_name(result.data)

    # -- using a prompt -----------------------------------------------------------------------

    @_explained
    def classify(self, files: list[str] | None, names: str, request: gr.Request) -> str:
        classifier = self._classifier(request)
        if not files:
            raise DataError("There is no image to classify; drop some.")
        if (names or "").strip():
            classifier = classifier.with_classes([name.strip() for name in names.split(",")])
        batches = predict_stream(classifier, map(Path, files), SHOWN_PROBABILITIES)
        return "".join(prediction_html(each) for batch in batches for each in batch)

    @_explained
    def save(self, name: str, request: gr.Request) -> tuple[str, Any]:
        classifier, target = self._classifier(request), self._run_folder(name)
        classifier.save_pretrained(target)
        return paragraph(f"Saved in {target}."), gr.Dropdown(choices=self.saved_runs())

    @_explained
    def open(self, name: str, request: gr.Request) -> tuple[str, str]:
        folder, session = self._run_folder(name), self.session(request)
        session.classifier = PromptClassifier.from_pretrained(folder, device=self.device)
        return self._shown(session)

    def saved_runs(self) -> list[str]:
        return sorted(config.parent.name for config in self.runs.glob(f"*/{CONFIG}"))

    def show(self, request: gr.Request) -> tuple[Any, ...]:
        """What a tab shows when it is opened."""
        session = self.session(request)
        data = "" if session.data is None else dataset_html(read_dataset(session.data))
        shown = ("", "") if session.classifier is None else self._shown(session)
        return (data, *shown, gr.Dropdown(choices=self.saved_runs()))

    def _classifier(self, request: gr.Request) -> PromptClassifier:
        classifier = self.session(request).classifier
        if classifier is None:
            raise DataError("There is no prompt yet; fit one, or open a saved one.")
        return classifier

    def _run_folder(self, name: str) -> Path:
        """The folder of a run, which is always directly in the folder of runs."""
        name = (name or "").strip()
        plain = name.isprintable() and Path(name).name == name and "\\" not in name
        if not name or not plain or name.startswith("."):
            raise ConfigError(f"{name!r} is not a name for a run in {self.runs}; give one.")
        return self.runs / name


def unpack(archive: Path, folder: Path) -> Path:
    """The folder of classes in a .zip file, unpacked into a new folder in `folder`."""
    target = Path(tempfile.mkdtemp(dir=folder)) / archive.stem
    try:
        with zipfile.ZipFile(archive) as packed:
            entries = packed.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > MAX_UNPACKED or len(entries) > MAX_FILES:
                raise DataError(
                    f"{archive.name} has {len(entries):,} files of {size / 10**9:.1f} GB; it may "
                    f"have {MAX_FILES:,} of {MAX_UNPACKED / 10**9:.0f} GB."
                )
            packed.extractall(target)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise DataError(f"{archive.name} cannot be unpacked: {error}.") from None
    archive.unlink()
    while True:  # archives often have one folder around everything
        inside = [p for p in target.iterdir() if p.name != MAC_ARCHIVE and not is_litter(p)]
        if len(inside) != 1 or not inside[0].is_dir():
            return target
        target = inside[0]


# -- HTML -----------------------------------------------------------------------------------------


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def dataset_html(dataset: Dataset) -> str:
    """A picture of each class with its number of images, and what was found in the data."""
    items, names = (*dataset.train, *dataset.test), dataset.class_names
    held_out = f", {len(dataset.test):,} of them held out" if dataset.test else ""
    count = f"{several(len(names), 'class', 'classes')}, {several(len(items), 'image')}"
    first = {item.label: item.path for item in reversed(dataset.train)}
    sizes, figures = Counter(item.label for item in items), ""
    for label, name in list(enumerate(names))[:SHOWN_CLASSES]:
        figures += f'<figure><img src="{thumbnail(first[label]) or ""}" alt="">'
        figures += f"<figcaption>{escape(name)} {sizes[label]:,}</figcaption></figure>"
    notes = "".join(paragraph(finding.note) for finding in dataset.findings)
    summary = paragraph(f"{dataset.name}: {count}{held_out}.")
    return f'{summary}<div class="pictures">{figures}</div>{notes}'


def result_html(classifier: PromptClassifier) -> str:
    """The prompt, its accuracies beside their baselines, and the verdict of `ipl fit`."""
    result = classifier.result_
    prompt = ""
    for piece in prompt_pieces(result.prompt):
        space = "" if piece.text[0] in ".,;:!?" else " "
        prompt += f'{space}<span class="{piece.kind}">{escape(piece.text)}</span>'
    found = NO_IMAGES if result.comparison is None else result.about_words
    parts = [f'<p class="prompt">{prompt}</p>']
    parts += [] if result.comparison is None else [result.comparison._repr_html_()]
    notes = [*classifier.notes_, suggest_backbone(result.config.backbone)]
    return "".join([*parts, *(paragraph(text) for text in (found, *notes) if text)])


def prediction_html(prediction: Prediction) -> str:
    """An image with its most probable classes, or why it cannot be read."""
    image = Path(prediction.image)
    if prediction.error is not None:
        return paragraph(f"{image.name}: {prediction.error}")
    lines = "".join(
        f"<li>{escape(name)} <meter value={p:.4f}></meter> {percent(p)}</li>"
        for name, p in prediction.classes
    )
    picture = thumbnail(image) or ""
    return f'<div class="classified"><img src="{picture}" alt=""><ol>{lines}</ol></div>'


STYLE = """
.pictures { display: flex; flex-wrap: wrap; gap: 0.6rem; }
.pictures figure { margin: 0; width: 6rem; }
.pictures img, .classified img { width: 6rem; height: 6rem; object-fit: cover; }
.prompt { font-size: 1.4rem; overflow-wrap: anywhere; }
.prompt .word { font-weight: 700; color: var(--primary-600); }
.classified { display: flex; gap: 1rem; }
.scroll { overflow-x: auto; }
"""


def theme() -> Any:
    """Gradio's theme with fonts of the system, and with colours that can be read."""
    base = gr.themes.Default(primary_hue="blue", font=["system-ui"], font_mono=["monospace"])
    return base.set(
        body_text_color_subdued="*neutral_500",
        block_info_text_color="*neutral_500",
        input_placeholder_color="*neutral_500",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
    )


# -- the page -------------------------------------------------------------------------------------


def build_page(workbench: Workbench) -> Any:
    """The page, whose buttons call the workbench."""
    by_name = {setting.name: setting for setting in fit_settings()}
    with gr.Blocks(analytics_enabled=False, title="ipl workbench", fill_width=True) as page:
        gr.Markdown(
            "# ipl workbench\nTeach a frozen CLIP your classes of images, with a prompt that you "
            "can read. Images stay on the machine that runs this page."
        )
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                gr.Markdown("## Images")
                folder = gr.Textbox(
                    label="Folder with one sub-folder per class, or a table of paths",
                    placeholder="/home/me/images",
                    visible=workbench.local,
                    submit_btn="Use",
                )
                upload = gr.File(label="The same as a .zip file", height=120)
                scenes = gr.Button("Try it with drawn scenes", size="sm")
                gr.Markdown("## Prompt")
                fields = [_field(by_name[name]) for name in FIELDS]
                with gr.Row():
                    fit = gr.Button("Fit", variant="primary", min_width=100)
                    cancel = gr.Button("Cancel", min_width=100)
            with gr.Column(scale=2, min_width=300):
                data = gr.HTML()
                gr.Markdown("## Result")
                result = gr.HTML(min_height=120)
                gr.Markdown("## Try it")
                files = gr.File(label="Images", file_count="multiple", height=160)
                names = gr.Textbox(
                    label="Other classes",
                    info="With commas; empty for those it was trained on.",
                    submit_btn="Classify",
                )
                classified = gr.HTML()
                gr.Markdown("## Save and open")
                with gr.Row():
                    name = gr.Textbox(label=f"Save in {workbench.runs} as", submit_btn="Save")
                    run = gr.Dropdown(
                        label=f"Open from {workbench.runs}", allow_custom_value=True, value=""
                    )
                saved = gr.HTML()

        # Gradio names the address of each event after its method.
        shown, api = [result, name], {"api_visibility": "undocumented"}
        page.load(workbench.show, None, [data, *shown, run], **api)
        page.unload(workbench.close)
        folder.submit(workbench.use_folder, folder, data, **api)
        upload.upload(workbench.use_upload, upload, data, **api)
        scenes.click(workbench.use_scenes, None, data, **api)
        fit.click(
            workbench.fit,
            fields,
            shown,
            show_progress_on=result,
            concurrency_limit=None,  # so that a second fit is told that one is running
            **api,
        )
        cancel.click(workbench.cancel, **api)
        gr.on([files.upload, names.submit], workbench.classify, [files, names], classified, **api)
        name.submit(workbench.save, name, [saved, run], **api)
        run.input(workbench.open, run, shown, **api)
    return page


def _field(setting: Setting) -> Any:
    """A field of the page for one of FitConfig, which starts with its default."""
    value = "" if setting.default is None else str(setting.default)
    label = setting.title.replace("_", " ").capitalize()
    choices: Sequence[str] = setting.choices
    if setting.name == "learner":
        choices = known_learners()
    elif setting.name == "words":
        choices = [AUTO, PAPER, *map(str, range(MOST_WORDS + 1))]
    if choices:
        return gr.Dropdown(
            list(choices), value=value, label=label, info=setting.help, allow_custom_value=True
        )
    placeholder = setting.default_text
    return gr.Textbox(value, label=label, info=setting.help, placeholder=placeholder, max_lines=1)


# -- the server -----------------------------------------------------------------------------------

API = "/gradio_api/"
GETS = (
    *("/config", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json", "/assets/"),
    *("/static/", f"{API}heartbeat/", f"{API}file=", f"{API}queue/data", f"{API}upload_progress"),
    *(f"{API}startup-events", f"{API}app_id", f"{API}info"),
)
POSTS = (f"{API}queue/join", f"{API}upload", f"{API}cancel", f"{API}reset")


class CallFilter(BaseHTTPMiddleware):
    """Passes on what the page asks for; other calls would fail with a traceback in Gradio."""

    def __init__(
        self, app: ASGIApp, page: Any, folder: Path, hosts: Collection[str] | None
    ) -> None:
        super().__init__(app)
        self.page, self.folder, self.hosts = page, folder.resolve(), hosts

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        path, headers = request.scope["path"], request.headers
        origin = headers.get("origin")
        if not is_allowed_host(headers.get("host", ""), self.hosts):
            return PlainTextResponse("Not under this name; see `ipl ui --allow-host`.", 403)
        if path != "/" and not path.startswith(POSTS if request.method == "POST" else GETS):
            return PlainTextResponse("Not found.", 404)
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return PlainTextResponse("Not for other sites.", 403)
        if "content-length" in headers and "transfer-encoding" in headers:
            return PlainTextResponse("Both Content-Length and Transfer-Encoding.", 400)
        try:
            if path == f"{API}queue/join" and not await self._is_call(request):
                return PlainTextResponse("Not a call of this page.", 422)
            return await call_next(request)
        except ClientDisconnect:
            return PlainTextResponse("Not a whole request.", 400)
        except TypeError:
            if path != f"{API}upload":
                raise
            return PlainTextResponse("Not an upload.", 400)  # Gradio found no file in it

    async def _is_call(self, request: Request) -> bool:
        """Whether a call has the values that its function takes."""
        if int(request.headers.get("content-length", MAX_CALL + 1)) > MAX_CALL:
            return False
        try:
            call = json.loads(await request.body())
            inputs, values = self.page.fns[call["fn_index"]].inputs, call["data"]
            for component, value in zip(inputs, values, strict=True):
                if isinstance(component, gr.File) and value is not None:
                    model = component.data_model.model_validate(value)
                    paths = [Path(file.path).resolve() for file in getattr(model, "root", [model])]
                    if not all(p.is_relative_to(self.folder) and p.is_file() for p in paths):
                        return False
                elif not isinstance(value, str | bool | None):
                    return False
        except (ValidationError, ValueError, KeyError, TypeError, RecursionError):
            return False
        return True


def launch(
    workbench: Workbench,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow_hosts: Sequence[str] = (),
    browser: bool = False,
) -> Any:
    """Serve the page in a thread until its `close` is called; `local_url` is its address."""
    page = build_page(workbench)
    hosts = allowed_hosts([host, *allow_hosts], workbench.local)
    call_filter = Middleware(CallFilter, page=page, folder=workbench.folder, hosts=hosts)
    try:
        page.launch(
            server_name=f"[{host}]" if ":" in host else host,
            server_port=port,
            app_kwargs={"middleware": [call_filter]},
            theme=theme(),
            css=STYLE,
            max_file_size=MAX_UPLOAD,
            inbrowser=browser,
            prevent_thread_lock=True,
            quiet=True,
            share=False,
            footer_links=[],
            run_history=False,
            ssr_mode=False,
        )
    except OSError:
        where = "7860 to 7959" if port is None else port
        raise ConfigError(
            f"Cannot listen on port {where} of {host!r}; choose another --port or --host."
        ) from None
    return page


def serve_until_signal(page: Any, workbench: Workbench) -> bool:
    """Wait for Ctrl-C or SIGTERM and end; returns whether no fit is running any more."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(1.0):  # on Windows a longer wait would not see Ctrl-C
        os.utime(workbench.folder)  # so that another workbench does not take it for an old one
    ended = workbench.end()
    page.close(verbose=False)
    return ended
