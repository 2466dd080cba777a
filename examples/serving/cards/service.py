"""The service: `GET /card/ada` answers the features of a card now; `/` is a page on which they move. Without Spark.

STORE=sqlite:///features.db uvicorn --factory cards.service:service
"""

import os
from datetime import datetime
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from cards.features import card
from slicing.serving import Answer, Reader, Stale

PAGE = Path(__file__).with_name("page.html")
MAX_AGE = "10 minutes"
"""Values are not served if the writer has not written for longer."""


def shown(answer: Answer) -> dict[str, object]:
    """Return an answer as JSON: its instant, its age, and for each window its start and its values."""
    windows = {
        name: {"start": answer.starts[name].isoformat(), "values": values, "known_from": _text(answer.known_from[name])}
        for name, values in answer.items()
    }
    return {"at": answer.at.isoformat(), "age": answer.age.total_seconds(), "windows": windows}


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat()


def application(reader: Reader) -> Starlette:
    """Return the service that answers from a reader."""

    async def of_card(request: Request) -> Response:
        try:
            return JSONResponse(shown(await reader.aread(request.path_params["card"], max_age=MAX_AGE)))
        except Stale as error:
            return JSONResponse({"error": str(error)}, status_code=503)

    async def page(request: Request) -> Response:
        return FileResponse(PAGE)

    return Starlette(routes=[Route("/card/{card}", of_card), Route("/", page)])


def service() -> Starlette:
    """Return the service of the store in the environment."""
    return application(Reader(os.environ.get("STORE", "sqlite:///features.db"), card))
