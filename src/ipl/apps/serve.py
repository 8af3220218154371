"""`ipl serve`: a learnt prompt behind a few addresses. Needs the extra `ipl[serve]`."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from errno import EADDRINUSE
from functools import lru_cache
from importlib.resources import files
from ipaddress import ip_address
from math import ceil
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from PIL import Image
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message
from typing_extensions import TypedDict  # pydantic takes that of typing only from Python 3.12
from uvicorn.protocols.http.h11_impl import H11Protocol

from ipl._version import __version__
from ipl.apps.decoders import Array, Decoders, Refusal
from ipl.apps.hosts import is_allowed_host
from ipl.classifier import PromptClassifier
from ipl.display.page import render
from ipl.inference.image_encoder import ImageEncoder
from ipl.support.errors import ConfigError, IplError, brief, printable
from ipl.support.files import read_text, to_json

PATHS = ("/predict", "/prompt", "/healthz", "/metrics", "/docs", "/openapi.json", "/")
OPEN = "/healthz"  # answered without a token, for the load balancer
KINDS = ("multipart/form-data", "application/json")  # of the body of a request
# What pydantic finds wrong with a field, in our words.
REASONS = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such field; allowed are image, classes and top",
}
MAX_CLASSES = 256  # in the class list of a request
CLASS_LISTS = 16  # whose text features stay in memory, the latest used ones
BATCH = 32  # images that the model classifies together
WAIT = 0.005  # seconds that the first image of a batch waits for others
UPLOAD_SECONDS = 10.0  # for the head of a request, and again for its body
ANSWER_SECONDS = 30.0  # from there to the answer
MIN_TOKEN = 16  # characters
MAX_CONNECTIONS, BACKLOG = 4096, 128  # open, and waiting to be accepted
# For every response: no other page may frame it, and no browser may take it for another type.
PROTECTION = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "
    "frame-ancestors 'none'",
}


@dataclass(frozen=True)
class Limits:
    """Bounds on one request and on all together; ConfigError if one is not allowed."""

    max_bytes: int = 10_000_000  # of a request's body
    max_pixels: int = 25_000_000  # of an image as it is decoded
    concurrency: int = 128  # requests that are read or answered at a time

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise ConfigError(f"{name} is {value}; it must be 1 or more.")
        most = Image.MAX_IMAGE_PIXELS  # with more, Pillow warns of decompression bombs
        if most is not None and self.max_pixels > most:
            raise ConfigError(f"max_pixels is {self.max_pixels:,}; it must be {most:,} or less.")


class RankedClass(TypedDict):
    """A class and how probable it is."""

    name: str
    probability: float


Ranking = list[RankedClass]  # the most probable classes, best first


# -- what is asked --------------------------------------------------------------------------------


Name = Annotated[str, Field(max_length=100)]


class Query(BaseModel):
    """An image, the classes to choose from (default: the prompt's), and how many to return."""

    model_config = ConfigDict(extra="forbid", val_json_bytes="base64")
    image: bytes = Field(min_length=1, description="a file in a form, base64 in JSON")
    classes: list[Name] | None = Field(None, min_length=2, max_length=MAX_CLASSES)
    top: int = Field(5, ge=1)


async def read_query(request: Request, max_bytes: int) -> Query:
    """The body of a request: no more bytes and no more time than is allowed."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in KINDS:
        raise Refusal(415, f"Content-Type is {brief(kind)}; allowed are {' and '.join(KINDS)}.")
    size, too_large = 0, Refusal(413, f"The request is larger than {max_bytes:,} bytes.")
    if int(request.headers.get("content-length", 0)) > max_bytes:
        raise too_large

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise too_large
        return message

    read = _read_form if kind == KINDS[0] else _read_json
    reading = read(Request(request.scope, receive), max_bytes)
    try:
        return await asyncio.wait_for(reading, UPLOAD_SECONDS)
    except asyncio.TimeoutError:
        sentence = f"The request was not complete after {UPLOAD_SECONDS:g} s."
        raise Refusal(408, sentence) from None
    except ClientDisconnect:
        raise Refusal(400, "The connection was closed before the request was complete.") from None
    except ValidationError as error:
        raise _refusal(error) from None


async def _read_json(request: Request, _: int) -> Query:
    body = await request.body()
    return await asyncio.to_thread(Query.model_validate_json, body, strict=True)


async def _read_form(request: Request, max_bytes: int) -> Query:
    fields = MAX_CLASSES + 2
    async with request.form(max_files=1, max_fields=fields, max_part_size=max_bytes) as form:
        # An empty field of a form says nothing.
        values: dict[str, Any] = {name: value for name, value in form.items() if value != ""}
        if isinstance(image := values.get("image"), UploadFile):
            values["image"] = await image.read()
        names = form.getlist("classes")
    if "classes" in values:  # several, or one field: a,b,c
        values["classes"] = names if len(names) > 1 else str(names[0]).split(",")
    return Query.model_validate(values)


def _refusal(error: ValidationError) -> Refusal:
    """What is wrong with a query, in one sentence."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name, kind = str(first["loc"][0])[:60] if first["loc"] else "The request", first["type"]
    if kind == "bytes_invalid_encoding":
        sentence = "image is not base64; send the image itself: paths and URLs are not opened."
        return Refusal(400, sentence)
    reason = REASONS.get(kind) or re.sub(r"^\w+ should", "it must", first["msg"])
    return Refusal(400 if kind == "json_invalid" else 422, f"{name}: {reason}.")


# -- how it is answered ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What the backbone sees of an image, possible classes (None: the prompt's), how many."""

    pixels: Array  # (crop, crop, 3)
    classes: tuple[str, ...] | None
    top: int


class Model:
    """A learnt prompt that answers questions in batches, for several threads at a time."""

    def __init__(self, classifier: PromptClassifier, engine: str = "torch") -> None:
        self.classifier, self.backbone = classifier, classifier.learner_.backbone
        # without the folder that holds it on this machine
        name = self.backbone.name
        self.name = name if name.count("/") < 2 and name[0] not in "./~" else Path(name).name
        self.encoder = ImageEncoder(classifier, engine)
        self.own = self._head(None)
        self._other = lru_cache(CLASS_LISTS)(self._head)

    def answer(self, questions: Sequence[Question]) -> list[Ranking | Exception]:
        """An answer to each question, or the reason why there is none."""
        answers = dict[int, Ranking | Exception]()
        with self.encoder.share():
            features = self.encoder.encode(np.stack([each.pixels for each in questions]))
            for classes in {each.classes for each in questions}:
                rows = [i for i, each in enumerate(questions) if each.classes == classes]
                try:
                    names, logits = self.own if classes is None else self._other(classes)
                except IplError as error:
                    sentence = str(error).replace(self.backbone.name, self.name)
                    answers.update(dict.fromkeys(rows, Refusal(422, sentence)))
                    continue
                with torch.no_grad():
                    probabilities = logits(features[rows]).softmax(1).cpu().numpy()
                for i, row in zip(rows, probabilities, strict=True):
                    best = row.argsort(kind="stable")[::-1][: questions[i].top]
                    answers[i] = [{"name": names[c], "probability": float(row[c])} for c in best]
        return [answers[i] for i in range(len(questions))]

    @torch.no_grad()
    def _head(self, classes: tuple[str, ...] | None) -> tuple[list[str], Callable[..., Any]]:
        """Class names, and what makes logits of features; fixed texts are computed here, once."""
        classifier = self.classifier if classes is None else self.classifier.with_classes(classes)
        return list(map(str, classifier.classes_)), classifier.logits_function()

    def about(self) -> dict[str, Any]:
        return {
            "words": self.classifier.words_,
            "prompt": self.classifier.prompt_,
            "classes": self.own[0],
            "learner": self.classifier.learner,
            "backbone": self.name,
            "weights_sha256": self.backbone.weights_sha256,
            "ipl_version": __version__,
        }


class Batcher:
    """Questions that are asked at the same time are answered together, by a few threads."""

    def __init__(self, model: Model) -> None:
        self.work: Callable[..., Sequence[Any]] = model.answer
        self.threads = model.encoder.workers
        self.batches = self.images = 0  # so far
        self.waiting: asyncio.Queue[tuple[Question, asyncio.Future[Ranking]]] = asyncio.Queue()
        self._collecting = asyncio.Lock()  # so that a batch is not divided

    async def ask(self, question: Question) -> Ranking:
        future: asyncio.Future[Ranking] = asyncio.get_running_loop().create_future()
        self.waiting.put_nowait((question, future))
        return await future

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answers until the end of the block."""
        with ThreadPoolExecutor(self.threads, "ipl-model") as threads:
            tasks = [asyncio.create_task(self._run(threads)) for _ in range(self.threads)]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _run(self, threads: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            async with self._collecting:
                batch = [await self.waiting.get()]
                if self.waiting.qsize() < BATCH - 1:
                    await asyncio.sleep(WAIT)
                while len(batch) < BATCH and not self.waiting.empty():
                    batch.append(self.waiting.get_nowait())
            batch = [pair for pair in batch if not pair[1].done()]  # others gave up
            if not batch:
                continue
            self.batches += 1
            self.images += len(batch)
            questions = [question for question, _ in batch]
            try:
                answers = await loop.run_in_executor(threads, self.work, questions)
            except Exception as error:  # of whichever kind: the next batch may succeed
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if isinstance(answer, Exception) and not future.done():
                    future.set_exception(answer)
                elif not future.done():
                    future.set_result(answer)


class Service:
    """What the addresses share: the model, its batches, the decoders, the counts."""

    def __init__(self, classifier: PromptClassifier, limits: Limits, engine: str) -> None:
        self.limits = limits
        self.most_connections = max_connections()  # one client has at most half of them
        self.warned = False  # that there are too many
        self.inside = 0  # requests that are being read or answered
        self.model = Model(classifier, engine)
        self.batcher = Batcher(self.model)
        preprocessing = self.model.backbone.preprocessing
        self.decoders = Decoders(preprocessing, limits.max_pixels, limits.max_bytes)
        self.registry = own = CollectorRegistry()
        self.requests = Counter("ipl_requests", "Requests.", ["path", "status"], registry=own)
        self.rejected = Counter("ipl_rejected", "Refused unread.", ["reason"], registry=own)
        self.seconds = Histogram(
            "ipl_predict_seconds", "From the head of POST /predict to its response.", registry=own
        )
        for name, value in {
            "requests_inside": lambda: self.inside,
            "images_waiting": self.batcher.waiting.qsize,
            "images_total": lambda: self.batcher.images,
            "batches_total": lambda: self.batcher.batches,
        }.items():
            Gauge(f"ipl_{name}", "Now, or so far.", registry=own).set_function(value)

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        try:
            await self.decoders.start()
            async with self.batcher.running():
                yield
        finally:
            await self.decoders.close()
            self.model.encoder.close()

    async def predict(self, request: Request) -> Ranking:
        """The classes of the image in a request; raises Refusal."""
        if self.inside >= self.limits.concurrency:
            self.rejected.labels("busy").inc()
            raise Refusal(503, f"{self.inside} requests are being answered; try again in a second.")
        self.inside += 1
        try:
            answer = self._answer(request, await read_query(request, self.limits.max_bytes))
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except asyncio.TimeoutError:
            sentence = f"There was no answer after {ANSWER_SECONDS:g} s; try again."
            raise Refusal(503, sentence) from None
        finally:
            self.inside -= 1

    def refuse_connection(self) -> None:
        if not self.warned:
            self.warned = True
            logging.getLogger("uvicorn.error").error(
                "More than %d connections, or half as many of one client: some are closed. This is "
                "logged once; /metrics counts them.",
                self.most_connections,
            )
        self.rejected.labels("connections").inc()

    async def _answer(self, request: Request, query: Query) -> Ranking:
        client = request.client.host if request.client else ""
        pixels = await self.decoders.decode(query.image, client)
        names = query.classes and tuple(name.strip() for name in query.classes)
        return await self.batcher.ask(Question(pixels, names or None, query.top))


# -- the addresses --------------------------------------------------------------------------------


class Json(JSONResponse):
    """JSON in which control characters are escaped."""

    def render(self, content: Any) -> bytes:
        return to_json(content, indent=None).encode()


def problem(status: int, sentence: str, **headers: str) -> Json:
    """An error as the client gets it."""
    retry = {"Retry-After": "1"} if status == 503 else {}
    return Json({"error": printable(sentence)}, status, {**retry, **headers})


def create_app(
    classifier: PromptClassifier,
    limits: Limits | None = None,
    hosts: Collection[str] | None = None,
    token: str | None = None,
    engine: str = "torch",
) -> FastAPI:
    """The web service of a fitted classifier, for any ASGI server.

    It starts its processes in its lifespan, which a server runs but mounting it below another
    application does not. `hosts` are the names that a request's Host header may have; None allows
    any. `token` is what every request but those to /healthz must send.
    """
    service = Service(classifier, limits or Limits(), engine)
    app = FastAPI(
        title="ipl",
        version=__version__,
        description="A frozen CLIP with a prompt that a person can read.",
        docs_url=None,  # FastAPI's own pages fetch scripts from elsewhere
        redoc_url=None,
        lifespan=service.running,
    )
    app.state.service = service
    app.add_middleware(Guard, service=service, hosts=hosts, token=token)
    content = {kind: {"schema": Query.model_json_schema()} for kind in KINDS}
    body = {"requestBody": {"required": True, "content": content}}
    form = (files("ipl.apps") / "serve_page.html.jinja").read_text(encoding="utf-8")

    @app.post("/predict", response_model=dict[Literal["classes"], Ranking], openapi_extra=body)
    async def predict(request: Request) -> Response:
        """The classes of an image, most probable first."""
        return Json({"classes": await service.predict(request)})

    @app.get("/prompt")
    async def prompt() -> Response:
        """The words, the prompt as a line of text, its classes, learner and backbone."""
        return Json(service.model.about())

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz")
    async def healthz() -> Response:
        """That the service answers, and how many requests it is reading or answering."""
        return Json({"status": "ok", "inside": service.inside})

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(generate_latest(service.registry), media_type="text/plain; version=0.0.4")

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def page() -> Response:
        return show()

    @app.post("/", include_in_schema=False)
    async def try_out(request: Request) -> Response:
        try:
            return show(ranking=await service.predict(request))
        except Refusal as refusal:
            return show(refusal.status, error=str(refusal))

    def show(status: int = 200, ranking: Ranking | None = None, error: str = "") -> Response:
        text = render(form, about=service.model.about(), ranking=ranking, error=error)
        return HTMLResponse(printable(text), status)

    @app.exception_handler(Refusal)
    async def refused(_: Request, refusal: Refusal) -> Response:
        return problem(refusal.status, str(refusal))

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, error.detail.rstrip(".") + ".", **(error.headers or {}))

    @app.exception_handler(Exception)
    async def bug(_: Request, __: Exception) -> Response:
        return problem(500, "Internal error; the log of the service has the details.")

    return app


# -- who may ask ----------------------------------------------------------------------------------


class Guard(BaseHTTPMiddleware):
    """Refuses requests from other sites and without the token; counts and protects responses."""

    def __init__(
        self, app: ASGIApp, service: Service, hosts: Collection[str] | None, token: str | None
    ) -> None:
        super().__init__(app)
        self.service, self.hosts = service, hosts
        self.expected = f"Bearer {token}".encode() if token else None

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        start, path, status = time.perf_counter(), request.scope["path"], 500  # for a bug
        try:
            response = self._refusal(request.headers, path) or await call_next(request)
            response.headers.update(PROTECTION)
            status = response.status_code
            return response
        finally:
            self.service.requests.labels(path if path in PATHS else "other", status).inc()
            if path == "/predict":
                self.service.seconds.observe(time.perf_counter() - start)

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        host, sent = headers.get("host", ""), headers.get("authorization", "").encode("latin-1")
        if not is_allowed_host(host, self.hosts):
            self.service.rejected.labels("host").inc()
            sentence = f"Host is {brief(host)}, which is not allowed; see `ipl serve --allow-host`."
            return problem(403, sentence)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy in front may go by the other of the two, and take something else for a body.
            sentence = "The request has both Content-Length and Transfer-Encoding; send only one."
            return problem(400, sentence, Connection="close")
        if self.expected and path != OPEN and not hmac.compare_digest(sent, self.expected):
            self.service.rejected.labels("token").inc()
            sentence = "Authorization is missing or wrong; send it as Bearer TOKEN."
            return problem(401, sentence, **{"WWW-Authenticate": "Bearer"})
        return None


def is_loopback(bound: socket.socket) -> bool:
    """Whether only this machine can reach a socket."""
    return ip_address(str(bound.getsockname()[0]).partition("%")[0]).is_loopback


def read_token(file: Path) -> str:
    """The token in a file; raises IplError if there is none that can be sent."""
    token = read_text(file).strip()
    if len(token) < MIN_TOKEN or not all("!" <= character <= "~" for character in token):
        raise ConfigError(
            f"The token in {file} must be one word of {MIN_TOKEN} or more letters, digits and "
            "signs, for example from `openssl rand -hex 32`."
        )
    return token


# -- the server -----------------------------------------------------------------------------------


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, on a free port if `port` is 0; it refuses connections until it listens.

    So a port that is taken is reported before the model is loaded, and no client waits for that.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = " --port 0 takes a free one." if getattr(error, "errno", 0) == EADDRINUSE else ""
        raise ConfigError(f"Cannot listen on port {port} of {host!r}: {reason}.{hint}") from None
    return bound


def address_of(bound: socket.socket) -> str:
    """The address of a socket as typed into a browser."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 with a limit of connections, and of the time for a request's head."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.service: Service = self.config.app.state.service  # type: ignore[union-attr]
        peers = [each.transport.get_extra_info("peername") for each in self.connections]
        clients = [peer and peer[0] for peer in peers]
        of_this = clients.count(self.client and self.client[0])
        most = self.service.most_connections
        if len(clients) > most or of_this > most // 2:
            self.service.refuse_connection()
            transport.abort()
        self._start_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(UPLOAD_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        """Ends also a client that goes on sending after it was refused."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class Server(uvicorn.Server):
    """Ends on Ctrl-C and SIGTERM; uvicorn would raise the signal once more after its end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del sig, frame
        self.should_exit = True


def run_server(app: FastAPI, bound: socket.socket) -> None:
    """Answers requests until Ctrl-C or SIGTERM; those that have arrived by then are answered."""
    service: Service = app.state.service
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # asyncio accepts as many at once, whatever the limit
        backlog=min(BACKLOG, service.most_connections // 4),
        timeout_graceful_shutdown=ceil(UPLOAD_SECONDS + ANSWER_SECONDS),
    )
    Server(config).run([bound])


def max_connections() -> int:
    """Half as many as this process may have files open."""
    try:
        import resource
    except ImportError:  # Windows
        return MAX_CONNECTIONS
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MAX_CONNECTIONS, limit // 2) if limit > 0 else MAX_CONNECTIONS
