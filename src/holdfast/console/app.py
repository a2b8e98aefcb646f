"""The console's web server: a page without a build step, and its API.

Handlers are coroutines that await nothing but the request's body, so one thread answers all requests in order: there
are no locks, and operators see what is on disk.
"""

from __future__ import annotations

import hmac
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse
from starlette.requests import ClientDisconnect

import holdfast.report
from holdfast.console.assignments import Assignments, RefusedError
from holdfast.console.run_scores import live
from holdfast.console.sheets import Key, Operator, Ticket
from holdfast.console.view import agreement_view, attempt_view, first_way, progress_view, sheet_view
from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import from_json
from holdfast.core.web import refusal
from holdfast.runs.run import Run

_PAGE = Path(__file__).parent / "page"
_FILES = {
    "/": _PAGE / "index.html",
    "/console.js": _PAGE / "console.js",
    "/draw.js": _PAGE / "draw.js",
    "/player.js": _PAGE / "player.js",
    "/console.css": _PAGE / "console.css",
    "/style.css": Path(holdfast.report.__file__).parent / "template" / "style.css",  # shared with the report
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_DATED = {"last-modified", "etag"}  # the time of a rollout could reveal its checkpoint; If-Range asks for it
_COOKIE = "holdfast-token"
_LONGEST = 2**14  # bytes of a request; a note of 2000 characters has at most 12,000

type Next = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Wish:
    """A request for the next attempt, on the robot or as a video."""

    operator: Operator
    way: Literal["robot", "video"]


@dataclass(frozen=True)
class SentEvent:
    """One event of a sheet as a page sends it. `key` makes it safe to send twice."""

    operator: Operator
    ticket: Ticket
    key: Key
    kind: str
    value: Any = None


class TooLongError(RefusedError):
    """A request with more bytes than any page sends."""

    status = 413


def create_app(runs: Sequence[Run], target: int, operator: str = "", token: str = "", local: bool = True) -> FastAPI:
    """The console for these runs.

    Args:
        runs: Runs to score.
        target: Trials per cell on the robot.
        operator: Name that the page suggests.
        token: Required of every request; empty requires none.
        local: Whether only this machine is served.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(runs, target))
    _add_page(app, operator)
    _add_scoring(app)
    _add_media(app)

    @app.middleware("http")
    async def guard(request: Request, call_next: Next) -> Response:
        refused = _refused(request, token, local)
        request.scope["headers"] = [(name, value) for name, value in request.scope["headers"] if name != b"if-range"]
        answer = refused or await call_next(request)
        for name, value in _HEADERS.items():
            answer.headers[name] = value
        for name in _DATED & set(answer.headers):
            del answer.headers[name]
        return answer

    _add_refusals(app)
    return app


def _add_refusals(app: FastAPI) -> None:
    """What goes wrong is answered in words: 4xx if the request is at fault, 503 if it may be sent again."""

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return JSONResponse({"message": str(error)}, error.status)

    @app.exception_handler(RequestValidationError)
    async def not_valid(_: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"message": f"Not a valid request: {error.errors()[0]['msg']}."}, 422)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    @app.exception_handler(HoldfastError)
    @app.exception_handler(OSError)
    async def failed(_: Request, error: Exception) -> Response:
        print(f"holdfast score: {error}", file=sys.stderr)  # it may name a run, so the page does not show it
        return JSONResponse({"message": "The server cannot save this. Its terminal says why."}, 503)


async def _read[T](request: Request, kind: type[T]) -> T:
    """The body of a request, of which no more than `_LONGEST` bytes are read."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST:
            raise TooLongError(f"A request has at most {_LONGEST} bytes here.")
    try:
        content = outside.parse_json(outside.decode(body, "The request"), "The request")
        return from_json(kind, content, "The request")
    except HoldfastError as error:
        raise RefusedError(str(error)) from None


def _lifespan(runs: Sequence[Run], target: int) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.assignments = Assignments(runs, target)
        yield
        app.state.assignments.close()

    return lifespan


def _refused(request: Request, token: str, local: bool) -> Response | None:
    """The answer to a request that is not served: of a foreign page, or without the token.

    The URL may carry the token once; then a cookie holds it.
    """
    found = refusal(request.method, request.headers.getlist, local=local, has_page=True, limit=_LONGEST)
    if found:
        return JSONResponse({"message": found.text}, found.status)
    if not token:
        return None
    given = request.query_params.get("token", "")
    if request.url.path == "/" and hmac.compare_digest(given.encode(), token.encode()):
        answer = RedirectResponse("/", 303)
        answer.set_cookie(_COOKIE, token, httponly=True, samesite="strict", max_age=30 * 86400)
        return answer
    if hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), token.encode()):
        return None
    return PlainTextResponse("Open the address with ?token=... that `holdfast score` printed.\n", 401)


def _add_page(app: FastAPI, operator: str) -> None:
    def add(path: str, file: Path) -> None:
        @app.get(path)
        async def page_file() -> Response:
            return FileResponse(file)

    for path, file in _FILES.items():
        add(path, file)

    @app.get("/api/hello")
    async def hello(request: Request) -> dict[str, Any]:
        assignments: Assignments = request.app.state.assignments
        assignments.refresh()
        return {"operator": operator, "way": first_way(assignments, time.time())}


def _add_scoring(app: FastAPI) -> None:
    @app.post("/api/next")
    async def next_attempt(request: Request) -> dict[str, Any]:
        wish = await _read(request, Wish)
        assignments: Assignments = request.app.state.assignments
        attempt = assignments.next(wish.operator, wish.way)
        return {
            "attempt": attempt_view(assignments, attempt, wish.operator) if attempt else None,
            "progress": progress_view(assignments, wish.operator),
        }

    @app.post("/api/event")
    async def event(request: Request) -> dict[str, Any]:
        event = await _read(request, SentEvent)
        assignments: Assignments = request.app.state.assignments
        sheet = assignments.tell(event.operator, event.ticket, event.key, event.kind, event.value)
        return sheet_view(assignments.find(event.ticket), sheet)

    @app.get("/api/progress")
    async def progress(operator: Operator, request: Request) -> dict[str, Any]:
        assignments: Assignments = request.app.state.assignments
        assignments.refresh()
        return progress_view(assignments, operator)

    @app.get("/api/agreement")
    async def agreement(request: Request) -> list[dict[str, Any]]:
        assignments: Assignments = request.app.state.assignments
        assignments.refresh()
        return agreement_view(assignments)


def _add_media(app: FastAPI) -> None:
    @app.get("/media/{ticket}.mp4")
    async def video(ticket: str, request: Request) -> Response:
        attempt = request.app.state.assignments.find(ticket)
        file = attempt.run.paths.find_video(attempt.video) if attempt.video else None
        return FileResponse(file, media_type="video/mp4") if file else Response(status_code=404)

    @app.get("/media/{ticket}.jpg")
    async def picture(ticket: str, request: Request) -> Response:
        file = live(request.app.state.assignments.find(ticket).run, time.time())
        if file is None:
            return Response(status_code=204)
        with outside.open_file(file) as content:
            return Response(content.read(outside.LARGEST), media_type="image/jpeg")
