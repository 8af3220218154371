"""The web application: a learnt prompt behind a few addresses, one of them a documentation page."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from PIL.Image import Image

from ipl._version import __version__
from ipl.apps.decoder_process import DecoderPool
from ipl.apps.http_responses import answer_errors_as_json, security_policy
from ipl.apps.limits import Gate, Limits, Refusal
from ipl.apps.serve.batcher import Batcher
from ipl.apps.serve.guard import ServiceGuard
from ipl.apps.serve.metrics import MEDIA_TYPE, Metrics
from ipl.apps.serve.model import ClassRanking, Model, Question
from ipl.apps.serve.requests import PredictRequest, read_request
from ipl.apps.serve.schema import RESPONSES, Health, PredictionResponse, PromptInfo, request_body
from ipl.classifier import PromptClassifier
from ipl.display.page import render
from ipl.support.errors import IplError

DECODERS = min(4, os.cpu_count() or 1)  # images that are decoded at a time
LARGE_DECODERS = max(1, DECODERS // 2)  # large ones, which wait for each other and for no others
# Whatever text gets into the page, a browser runs and loads nothing.
PAGE_HEADERS = security_policy(style_src="'unsafe-inline'", form_action="'self'")


class Service:
    """What the addresses share: the model, its batches, the decoders, the gate."""

    def __init__(self, classifier: PromptClassifier, limits: Limits, engine: str) -> None:
        self.limits = limits
        self.model = Model(classifier, limits.class_lists, engine)
        self.gate = Gate(limits.concurrency)
        self.metrics = Metrics()
        self.decoders = DecoderPool(limits, self.model.backbone.preprocessing)
        self.batcher: Batcher[Question, ClassRanking] = Batcher(
            self.model.answer, limits.batch, limits.wait_ms / 1000, self.model.encoder.workers
        )

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Starts the threads; ends them, and the decoders, once they have finished their work."""
        del app
        await asyncio.to_thread(self.decoders.start)
        self.batcher.start()
        with (
            ThreadPoolExecutor(DECODERS, "ipl-decoder") as self.threads,
            ThreadPoolExecutor(LARGE_DECODERS, "ipl-large-decoder") as self.large_threads,
        ):
            yield
            await asyncio.to_thread(self.batcher.close)
        self.decoders.close()
        self.model.encoder.close()

    def metrics_text(self) -> str:
        """Returns the state of the service and what requests came to, for Prometheus."""
        self.metrics.rejected["busy"] = self.gate.refused
        gauges = {
            "requests_inside": ("Requests that are being read or answered.", self.gate.inside),
            "images_waiting": ("Images that wait for the model.", self.batcher.waiting),
        }
        counts = {"images": self.batcher.items, "batches": self.batcher.batches}
        return self.metrics.text(gauges, counts)

    async def predict(self, request: Request) -> ClassRanking:
        """Returns the classes of the image in a request; raises Refusal or IplError."""
        with self.gate.enter():
            parse = await read_request(request, self.limits)

            async def answer() -> ClassRanking:
                question = await self._question(parse)
                return await asyncio.wrap_future(self.batcher.submit(question))

            try:
                return await asyncio.wait_for(answer(), self.limits.answer_seconds)
            except asyncio.TimeoutError:
                raise Refusal(
                    503, f"There was no answer after {self.limits.answer_seconds:g} s; try again."
                ) from None

    async def _question(self, parse: Callable[[], PredictRequest]) -> Question:
        """Returns a request with its image decoded."""
        loop = asyncio.get_running_loop()

        def prepare() -> tuple[PredictRequest, Image | None]:
            parsed = parse()
            return parsed, self.decoders.decode(parsed.image, large=False)

        parsed, image = await loop.run_in_executor(self.threads, prepare)
        if image is None:
            decode = self.decoders.decode
            image = await loop.run_in_executor(self.large_threads, decode, parsed.image)
        assert image is not None
        return Question(image, parsed.classes, parsed.top)


def create_app(
    classifier: PromptClassifier,
    limits: Limits | None = None,
    hosts: frozenset[str] | None = None,
    token: str | None = None,
    engine: str = "torch",
) -> FastAPI:
    """Return the web service of a fitted classifier as an ASGI application.

    Parameters
    ----------
    classifier : PromptClassifier
        A fitted classifier, for example from `PromptClassifier.from_pretrained`.
    limits : Limits, optional
        Bounds on requests, time and memory. The default is `Limits()`.
    hosts : frozenset of str, optional
        The names that a request's Host header may have. The default allows any, for a proxy or
        a server that checks them.
    token : str, optional
        What every request but those to /healthz must send as `Authorization: Bearer TOKEN`.
        By default none is needed.
    engine : {"torch", "onnx", "onnx-fp32"}, default="torch"
        What runs the image tower. "onnx" computes in int8: faster on a CPU, and less exact.

    Returns
    -------
    fastapi.FastAPI
        An application for any ASGI server. It starts its threads in its lifespan, which a server
        runs but mounting it below another application does not.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the classifier has not been fitted.
    ConfigError
        If the engine is unknown, its packages are missing, or it does not run on this device.
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
    app.add_middleware(ServiceGuard, hosts=hosts, token=token, metrics=service.metrics)

    @app.post(
        "/predict",
        response_model=PredictionResponse,
        responses=RESPONSES,
        openapi_extra=request_body(service.limits),
    )
    async def predict(request: Request) -> dict[str, Any]:
        """Returns the classes of an image, most probable first."""
        return {"classes": await service.predict(request)}

    @app.get("/prompt", response_model=PromptInfo)
    async def prompt() -> dict[str, Any]:
        """Returns the words, the prompt as a line of text, its classes, learner and backbone."""
        return service.model.about()

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", response_model=Health, responses={503: RESPONSES[503]})
    async def healthz() -> dict[str, Any]:
        """Returns whether the model answers, and how many images it has classified."""
        batcher = service.batcher
        if not batcher.alive:
            raise Refusal(503, "The model does not answer.")
        counts = {"images": batcher.items, "batches": batcher.batches}
        return {"status": "ok", "inside": service.gate.inside, **counts}

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        return Response(service.metrics_text(), media_type=MEDIA_TYPE)

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return page()

    @app.post("/", include_in_schema=False)
    async def try_out(request: Request) -> HTMLResponse:
        try:
            return page(ranking=await service.predict(request))
        except Refusal as refusal:
            return page(refusal.status, refusal.headers, error=refusal.sentence)
        except IplError as error:
            return page(422, error=str(error))

    def page(
        status: int = 200, headers: Mapping[str, str] | None = None, **result: Any
    ) -> HTMLResponse:
        about = service.model.about()
        content = docs_page(app.openapi(), about, service.limits, **result)
        return HTMLResponse(content, status, {**PAGE_HEADERS, **(headers or {})})

    answer_errors_as_json(app)
    return app


def docs_page(
    openapi: dict[str, Any],
    about: dict[str, Any],
    limits: Limits,
    ranking: ClassRanking | None = None,
    error: str | None = None,
) -> str:
    """Returns the documentation page: an OpenAPI document, the prompt and the limits in HTML.

    `ranking` or `error` is what came of an image that was sent with the form of the page.
    """
    template = (files("ipl.apps.serve") / "docs_page.html.jinja").read_text(encoding="utf-8")
    content = {"api": openapi, "about": about, "limits": limits}
    return render(template, **content, ranking=ranking, error=error)
