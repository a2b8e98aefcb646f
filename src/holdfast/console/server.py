"""Starts the console: on this machine without a token, for other machines only with one."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from holdfast.console.app import create_app
from holdfast.console.assignments import Assignments
from holdfast.core import outside
from holdfast.core.errors import HoldfastError
from holdfast.core.web import is_local
from holdfast.runs.run import Run

_SHORTEST = 16  # characters of a token


def serve(runs: Sequence[Run], target: int, operator: str, host: str, port: int, token_file: Path | None) -> None:
    """Serve until Ctrl-C."""
    token = read_token(token_file) if token_file else ""
    local = is_local(host)
    if not local and not token:
        raise HoldfastError(
            f"--host {host} lets other machines in, so it needs a token. Make one with "
            '`python -c "import secrets; print(secrets.token_hex())" > token` and add --token-file token.'
        )
    Assignments(runs, target).close()  # what is wrong with the runs' files is an error of the command
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise HoldfastError(
            f"Cannot listen on {host}:{port} ({error.strerror}). Is a console running already? Try --port {port + 1}."
        ) from None
    app = create_app(runs, target, operator, token, local)
    named = f"[{host}]" if ":" in host else host
    address = f"http://{named}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    print(f"Scoring at {address} (Ctrl-C stops it; every tick is already on disk)", flush=True)
    config = uvicorn.Config(app, ws="none", log_level="error", access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    server.run(sockets=[listening])


def read_token(file: Path) -> str:
    """The token in a file."""
    token = outside.read_text(file).strip()
    if len(token) < _SHORTEST or not token.isascii() or not token.isalnum():
        raise HoldfastError(
            f"The token in {file} must be at least {_SHORTEST} letters and digits. Make one with "
            f'`python -c "import secrets; print(secrets.token_hex())" > {file}`.'
        )
    return token
