"""The web application: a learnt prompt behind four addresses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse

from ipl._version import __version__
from ipl.apps.http_errors import say_errors_in_json
from ipl.apps.limits import Gate, Limits, Refusal
from ipl.apps.serve.batcher import Batcher
from ipl.apps.serve.decode import read_image
from ipl.apps.serve.docs_page import PAGE_HEADERS, page
from ipl.apps.serve.model import Model, Question, Ranked
from ipl.apps.serve.requests import read_request
from ipl.apps.serve.schema import RESPONSES, Health, PredictionResponse, PromptInfo, request_body
from ipl.classifier import PromptClassifier

DECODERS = min(4, os.cpu_count() or 1)  # images that are decoded, and large, at a time


class Service:
    """What the addresses share: the model, its batches, the threads that decode, the gate."""

    def __init__(self, classifier: PromptClassifier, limits: Limits) -> None:
        self.limits = limits
        self.model = Model(classifier, limits.class_lists)
        self.gate = Gate(limits.concurrency)
        self.batcher: Batcher[Question, Ranked] = Batcher(
            self.model.answer, limits.batch, limits.wait_ms / 1000
        )

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """Starts the threads, and ends them once they have done what they were given."""
        del app
        self.batcher.start()
        with ThreadPoolExecutor(DECODERS, "ipl-decoder") as self.decoders:
            yield
            await asyncio.to_thread(self.batcher.close)

    async def predict(self, request: Request) -> Ranked:
        """Returns the classes of the image in a request; raises Refusal or IplError."""
        with self.gate.enter():
            read = await read_request(request, self.limits)

            def prepare() -> Question:
                asked = read()
                seen = self.model.backbone.preprocessing
                decoded = read_image(asked.image, self.limits.max_pixels, seen)
                return Question(decoded, asked.classes, asked.top)

            async def answer() -> Ranked:
                loop = asyncio.get_running_loop()
                question = await loop.run_in_executor(self.decoders, prepare)
                return await asyncio.wrap_future(self.batcher.submit(question))

            try:
                return await asyncio.wait_for(answer(), self.limits.answer_seconds)
            except asyncio.TimeoutError:
                raise Refusal(
                    503, f"There was no answer after {self.limits.answer_seconds:g} s; try again."
                ) from None


def create_app(classifier: PromptClassifier, limits: Limits | None = None) -> FastAPI:
    """Returns the application for a fitted classifier; any ASGI server runs it."""
    service = Service(classifier, limits or Limits())
    limits = service.limits
    app = FastAPI(
        title="ipl",
        version=__version__,
        description="A frozen CLIP with a prompt that a person can read.",
        docs_url=None,  # FastAPI's own pages fetch scripts from elsewhere
        redoc_url=None,
        lifespan=service.running,
    )
    app.state.service = service

    @app.post(
        "/predict",
        response_model=PredictionResponse,
        responses=RESPONSES,
        openapi_extra=request_body(limits),
    )
    async def predict(request: Request) -> dict[str, Any]:
        """Tells the classes of an image, most probable first."""
        return {"classes": await service.predict(request)}

    @app.get("/prompt", response_model=PromptInfo)
    async def prompt() -> dict[str, Any]:
        """Tells the words, the prompt as a line of text, its classes, learner and backbone."""
        return service.model.about()

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", response_model=Health, responses={503: RESPONSES[503]})
    async def healthz() -> dict[str, Any]:
        """Tells whether images are being answered, and how many were."""
        if not service.batcher.alive:
            raise Refusal(503, "The model does not answer.")
        done = {"images": service.batcher.items, "batches": service.batcher.batches}
        return {"status": "ok", "inside": service.gate.inside, **done}

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page(app.openapi(), service.model.about(), limits), 200, PAGE_HEADERS)

    say_errors_in_json(app)
    return app
