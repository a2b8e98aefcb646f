"""The console's web server: a page without a build step, and its API.

Handlers are coroutines that never await, so one thread answers all requests in order: there are no locks, and operators
see what is on disk.
"""

from __future__ import annotations

import hmac
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse
from pydantic import BaseModel, StringConstraints

import holdfast.report
from holdfast.console.assignments import Assignments, RefusedError
from holdfast.console.run_scores import live
from holdfast.console.view import agreement_view, attempt_view, progress_view, sheet_view
from holdfast.core.errors import HoldfastError
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
_COOKIE = "holdfast-token"
_LOCAL = ("127.0.0.1", "localhost", "::1")

type Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]
type Key = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16,64}$")]
type Next = Callable[[Request], Awaitable[Response]]


class Wish(BaseModel):
    """A request for the next attempt, on the robot or as a video."""

    operator: Name
    way: Literal["robot", "video"]


class Event(BaseModel):
    """One event of a sheet. `key` makes it safe to send twice."""

    operator: Name
    ticket: Annotated[str, StringConstraints(max_length=64)]
    key: Key
    kind: Annotated[str, StringConstraints(max_length=20)]
    value: Any = None


def create_app(runs: Sequence[Run], target: int, operator: str = "", token: str = "", local: bool = True) -> FastAPI:
    """The console for these runs.

    Args:
        runs: Runs to score.
        target: Trials per cell on the robot.
        operator: Name that the page suggests.
        token: Required of every request; empty requires none.
        local: Whether only this machine is served; then requests for any other host name are refused, which prevents
            DNS rebinding.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(runs, target))
    _add_page(app, operator)
    _add_scoring(app)
    _add_media(app)

    @app.middleware("http")
    async def guard(request: Request, call_next: Next) -> Response:
        answer = _refused(request, token, local) or await call_next(request)
        for name, value in _HEADERS.items():
            answer.headers[name] = value
        if "last-modified" in answer.headers:
            del answer.headers["last-modified"]  # the time of a rollout could reveal its checkpoint
        return answer

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return JSONResponse({"message": str(error)}, 422)

    @app.exception_handler(HoldfastError)
    async def failed(_: Request, error: HoldfastError) -> Response:
        print(f"holdfast score: {error}", file=sys.stderr)  # it may name a run, so the page does not show it
        return JSONResponse({"message": "The server cannot save this. Its terminal says why."}, 503)

    return app


def _lifespan(runs: Sequence[Run], target: int) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.assignments = Assignments(runs, target)
        yield
        app.state.assignments.close()

    return lifespan


def _refused(request: Request, token: str, local: bool) -> Response | None:
    """The answer to a request without the token. The URL may carry it once; then a cookie holds it."""
    if local and request.url.hostname not in _LOCAL:
        return PlainTextResponse(f"Only {', '.join(_LOCAL)} are served here.\n", 421)
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
        unscored = [attempt.way for attempt in assignments.attempts if not assignments.scored(attempt)]
        filmed = "video" in unscored or "robot" not in unscored
        return {"operator": operator, "way": "video" if filmed else "robot"}


def _add_scoring(app: FastAPI) -> None:
    @app.post("/api/next")
    async def next_attempt(wish: Wish, request: Request) -> dict[str, Any]:
        assignments: Assignments = request.app.state.assignments
        attempt = assignments.next(wish.operator, wish.way)
        return {
            "attempt": attempt_view(assignments, attempt, wish.operator) if attempt else None,
            "progress": progress_view(assignments, wish.operator),
        }

    @app.post("/api/event")
    async def event(event: Event, request: Request) -> dict[str, Any]:
        assignments: Assignments = request.app.state.assignments
        sheet = assignments.tell(event.operator, event.ticket, event.key, event.kind, event.value)
        return sheet_view(assignments.find(event.ticket), sheet)

    @app.get("/api/progress")
    async def progress(operator: Name, request: Request) -> dict[str, Any]:
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
        return Response(file.read_bytes(), media_type="image/jpeg") if file else Response(status_code=204)
