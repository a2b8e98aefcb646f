"""The policy server: questions come in over websockets and are answered in batches. docs/serving.md has the protocol.

No message makes it read or write a file, run code, or stop. Without a token it listens on this machine only. Web pages
cannot connect: `core/web.py` refuses every request with an `Origin`, which browsers send.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from time import perf_counter
from typing import Any

from websockets.asyncio.server import Server as Listener
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedError
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from holdfast.core.errors import HoldfastError
from holdfast.core.web import READING, is_local, refusal
from holdfast.core.wire import WireError
from holdfast.serve.batching import Batcher, ServablePolicy
from holdfast.serve.bundle import Bundle
from holdfast.serve.meters import Meters
from holdfast.serve.protocol import MessageCodec

CONNECTIONS = 32  # at once


class Server:
    """Serves one bundle until it is stopped."""

    def __init__(self, bundle: Bundle, policy: ServablePolicy, token: str | None, say: Callable[[str], None]) -> None:
        self._codec = MessageCodec(bundle, policy.answer_steps)
        self._policy, self._token, self._say = policy, token, say
        self._meters = Meters(bundle.hash, bundle.tasks, policy.rows)
        self._batcher = Batcher(policy, lambda: len(self._open), self._meters.rows.observe)
        self._most = 1 if policy.remembers else CONNECTIONS
        self._open: dict[ServerConnection, bool] = {}  # whether its question is being answered
        self._local = False
        self._stop = asyncio.Event()

    async def run(self, host: str, port: int, ready: Callable[[int], None]) -> None:
        """Serve until `stop`; calls `ready` with the port once it accepts connections."""
        check_host(host, self._token)
        self._local = is_local(host) and self._token is None  # with a token, a proxy may give it another name
        for task in self._codec.tasks.values():  # warm up: the first question of a task builds its processors
            self._policy.answer([self._codec.blank(task)])
        batcher = asyncio.create_task(self._batcher.run())
        try:
            listener = await self._listen(host, port)
            ready(next(iter(listener.sockets)).getsockname()[1])
            await self._stop.wait()
            listener.close(close_connections=False)
            idle = [connection for connection, busy in self._open.items() if not busy]
            await asyncio.gather(*(self._goodbye(connection) for connection in idle))
            await listener.wait_closed()
        finally:
            batcher.cancel()
            with suppress(asyncio.CancelledError):
                await batcher

    def stop(self) -> None:
        """Finish the answers under way, close every connection, and return from `run`."""
        self._stop.set()

    async def _listen(self, host: str, port: int) -> Listener:
        try:
            return await serve(
                self._converse,
                host,
                port,
                process_request=self._admit,
                compression=None,  # else a small message could unpack to a huge one
                max_size=self._codec.limit,
                max_queue=1,
                server_header=None,
                logger=_silent(),
            )
        except OSError as error:
            raise HoldfastError(
                f"{host}:{port} cannot be listened on ({error.strerror}). Try another --port; 0 takes any free one."
            ) from None

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer plain HTTP requests, and refuse web pages and connections without the token."""
        if request.method not in READING:
            return connection.respond(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is served here.\n")
        found = refusal(request.method, request.headers.get_all, local=self._local, has_page=False)
        if found:
            self._meters.refused.inc()
            return connection.respond(HTTPStatus(found.status), f"{found.text}\n")
        if request.path == "/healthz":
            return connection.respond(HTTPStatus.OK, "OK\n")
        said = request.headers.get_all("Authorization")
        expected = f"Api-Key {self._token}"
        if self._token and not (len(said) == 1 and hmac.compare_digest(_bytes(said[0]), _bytes(expected))):
            self._meters.refused.inc()
            return connection.respond(HTTPStatus.UNAUTHORIZED, "This server needs its token as an API key.\n")
        if request.path == "/metrics":
            return connection.respond(HTTPStatus.OK, self._meters.text())
        return None

    async def _converse(self, connection: ServerConnection) -> None:
        """One client, one question at a time."""
        if len(self._open) >= self._most:
            self._meters.refused.inc()
            return await connection.close(CloseCode.TRY_AGAIN_LATER, f"the server takes {self._most} at once")
        self._open[connection] = False
        self._meters.connections.set(len(self._open))
        number = 0
        with suppress(ConnectionClosed):
            try:
                await connection.send(self._codec.greeting())
                while not self._stop.is_set():
                    message = await connection.recv()
                    self._open[connection] = True
                    reply, number = await _while_open(connection, self._reply(message, number))
                    await connection.send(reply)
                    self._open[connection] = False
                await self._goodbye(connection)
            finally:
                del self._open[connection]
                self._meters.connections.set(len(self._open))

    async def _goodbye(self, connection: ServerConnection) -> None:
        await connection.close(CloseCode.GOING_AWAY, "the server stops")

    async def _reply(self, message: str | bytes, number: int) -> tuple[str | bytes, int]:
        """The answer as bytes, or what is wrong as text, and the next question's number; never raises.

        Only answers count, so a refused question cannot take number 0, at which a policy forgets what it remembers. One
        that has failed is asked from 0 again, since nobody knows what it remembers.
        """
        begun = perf_counter()
        try:
            question = self._codec.read(message, number)
        except HoldfastError as error:
            self._meters.failed("message" if isinstance(error, WireError) else "question")
            return str(error), number
        try:
            found = await self._batcher.ask(question)
            reply = self._codec.answer(question, found.actions, found.wait, found.infer)
        except Exception as error:
            self._meters.failed("policy")
            if isinstance(error, HoldfastError):
                return str(error), 0
            self._say(traceback.format_exc())
            return f"The policy failed with {type(error).__name__}. The server's own output says more.", 0
        self._meters.answered(question.task.name, perf_counter() - begun)
        return reply, number + 1


async def _while_open[T](connection: ServerConnection, work: Coroutine[Any, Any, T]) -> T:
    """The result of some work, which is given up as soon as the client has gone."""
    task, gone = asyncio.create_task(work), asyncio.create_task(connection.wait_closed())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ConnectionClosedError(None, None)
        return task.result()
    finally:
        task.cancel()
        gone.cancel()


def _bytes(header: str) -> bytes:
    return header.encode(errors="surrogateescape")  # headers may hold any bytes


def _silent() -> logging.Logger:
    """A disabled logger: websockets would log every broken handshake with a traceback, which reads source files."""
    logger = logging.getLogger("holdfast.handshakes")
    logger.disabled = True
    return logger


def check_host(host: str, token: str | None) -> None:
    """Refuse to listen to other machines without a token."""
    if not is_local(host) and token is None:
        raise HoldfastError(
            f"--host={host} can be reached from other machines. Give --token-file=FILE, a secret that clients send as "
            "their API key (openssl rand -hex 32 > FILE), or stay on 127.0.0.1."
        )
