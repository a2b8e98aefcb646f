"""The policy server: websockets in, batches through the policy, answers out. docs/serving.md has the protocol.

Nothing a client sends makes it read or write a file, run code, or stop. It listens on this machine only, unless there
is a token. Web pages are kept out: a browser says where a page comes from, and whoever says that is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import traceback
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from time import perf_counter

from websockets.asyncio.server import Server as Listener
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from holdfast.core.errors import HoldfastError
from holdfast.serve.batching import Batcher, Policy
from holdfast.serve.bundle import Bundle
from holdfast.serve.meters import Meters
from holdfast.serve.protocol import MessageCodec
from holdfast.serve.wire import WireError

CONNECTIONS = 32  # at once


class Server:
    """Serves one bundle until it is stopped."""

    def __init__(self, bundle: Bundle, policy: Policy, token: str | None, say: Callable[[str], None]) -> None:
        self._desk = MessageCodec(bundle, policy.horizon)
        self._policy, self._token, self._say = policy, token, say
        self._meters = Meters(bundle.hash, bundle.tasks, policy.rows)
        self._batcher = Batcher(policy, lambda: self._meters.connections, self._meters.rows.add)
        self._most = 1 if policy.remembers else CONNECTIONS
        self._open: dict[ServerConnection, bool] = {}  # and whether a question of it is being answered
        self._stop = asyncio.Event()

    async def run(self, host: str, port: int, ready: Callable[[int], None]) -> None:
        """Serve until `stop`; `ready` is told the port once questions are taken. What was begun is answered."""
        check_host(host, self._token)
        for task in self._desk.tasks.values():  # the first question of a task would wait for its processors
            self._policy.answer([self._desk.blank(task)])
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
        """Answer what was begun, close every connection, and end."""
        self._stop.set()

    async def _listen(self, host: str, port: int) -> Listener:
        try:
            return await serve(
                self._converse,
                host,
                port,
                process_request=self._admit,
                origins=[None],
                compression=None,  # a small message that unpacks to a large one is no way in
                max_size=self._desk.limit,
                max_queue=1,
                server_header=None,
                logger=_silent(),
            )
        except OSError as error:
            raise HoldfastError(
                f"{host}:{port} cannot be listened on ({error.strerror}). Another --port may be free, 0 takes any."
            ) from None

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer plain requests, and let in whoever has the token."""
        if request.path == "/healthz":
            return connection.respond(HTTPStatus.OK, "OK\n")
        said = request.headers.get_all("Authorization")
        expected = f"Api-Key {self._token}"
        if self._token and not (len(said) == 1 and hmac.compare_digest(_bytes(said[0]), _bytes(expected))):
            self._meters.refused += 1
            return connection.respond(HTTPStatus.UNAUTHORIZED, "This server asks for its token, as an API key.\n")
        if request.path == "/metrics":
            return connection.respond(HTTPStatus.OK, self._meters.text())
        return None

    async def _converse(self, connection: ServerConnection) -> None:
        """One client, one question at a time."""
        if len(self._open) >= self._most:
            self._meters.refused += 1
            return await connection.close(CloseCode.TRY_AGAIN_LATER, f"it serves {self._most} at once")
        self._open[connection] = False
        self._meters.connections = len(self._open)
        number = 0
        with suppress(ConnectionClosed):
            try:
                await connection.send(self._desk.greeting())
                while not self._stop.is_set():
                    message = await connection.recv()
                    self._open[connection] = True
                    await connection.send(await self._reply(message, number))
                    self._open[connection] = False
                    number += 1
                await self._goodbye(connection)
            finally:
                del self._open[connection]
                self._meters.connections = len(self._open)

    async def _goodbye(self, connection: ServerConnection) -> None:
        await connection.close(CloseCode.GOING_AWAY, "the server stops")

    async def _reply(self, message: str | bytes, number: int) -> str | bytes:
        """The answer in bytes, or what is wrong as text; never an exception."""
        begun = perf_counter()
        try:
            look = self._desk.read(message, number)
        except HoldfastError as error:
            self._meters.errors["message" if isinstance(error, WireError) else "question"] += 1
            return str(error)
        try:
            found = await self._batcher.ask(look)
            reply = self._desk.answer(look, found.actions, found.wait, found.infer)
        except Exception as error:
            self._meters.errors["policy"] += 1
            if isinstance(error, HoldfastError):
                return str(error)
            self._say(traceback.format_exc())
            return f"The policy failed with {type(error).__name__}. The server's own output says more."
        self._meters.answers[look.task.name] += 1
        self._meters.seconds.add(perf_counter() - begun)
        return reply


def _bytes(header: str) -> bytes:
    return header.encode(errors="surrogateescape")  # as it came: whoever sends it decides what is in it


def _silent() -> logging.Logger:
    """A logger for what strangers do at the door: told with a traceback, it would fill disks and read source files."""
    logger = logging.getLogger("holdfast.door")
    logger.disabled = True
    return logger


def check_host(host: str, token: str | None) -> None:
    """Refuse to be reached from other machines without a token."""
    try:
        own = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        own = False
    if not own and token is None:
        raise HoldfastError(
            f"--host={host} can be reached from other machines. Give --token-file=FILE, a secret that clients send as "
            "their API key (openssl rand -hex 32 > FILE), or stay on 127.0.0.1."
        )
