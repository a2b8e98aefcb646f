"""A worker's process: questions and answers over pipes, within time and size, whatever the process does."""

from __future__ import annotations

import os
import selectors
import signal
import struct
import subprocess
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.arenas.arena import ArenaError
from holdfast.arenas.arena_file import WORKERS, ArenaFile
from holdfast.core.errors import HoldfastError
from holdfast.core.wire import pack, unpack

SMALL = 2**20  # bytes of an answer without images
_QUESTION = 2**15  # bytes of a question
_WORDS = 1000  # bytes of what it printed last that are shown
_REST = 64  # times that its output is read once more after its end
_POLL = 0.5  # seconds after which a silent process is looked at: a child of its own may hold its pipes open


class WorkerProcess:
    """One process of a worker. After any fault it is killed, and says so: start another."""

    def __init__(self, file: ArenaFile) -> None:
        """Start the process; it is asked nothing yet."""
        self._file, self._number, self._printed = file, 0, b""
        command = [file.python, "-u", str(WORKERS / "holdfast_worker.py"), file.worker]
        # The variables would lead another Python to our packages.
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={name: value for name, value in os.environ.items() if name not in hidden},
                start_new_session=True,
            )
        except OSError as error:
            raise HoldfastError(f"The arena {file.name!r} cannot start {file.python}: {error.strerror}.") from None
        self._end = weakref.finalize(self, _kill, self._process)
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._questions, self._answers, self._errors = (pipe.fileno() for pipe in pipes if pipe)
        self._selector = selectors.DefaultSelector()
        for stream in (self._questions, self._answers, self._errors):
            os.set_blocking(stream, False)
        for stream in (self._answers, self._errors):
            self._selector.register(stream, selectors.EVENT_READ)

    def ask[T](self, question: str, read: Callable[[Any], T], limit: int = SMALL, **arguments: Any) -> T:
        """Ask, and return the answer as `read` understands it; any fault is an `ArenaError` with its last words.

        Args:
            question: Name of the question.
            read: Checks the answer.
            limit: The most bytes that the answer may have.
            arguments: What the question says.
        """
        if not self.running:
            raise ArenaError(f"The worker of the arena {self._file.name!r} has ended.")
        self._number += 1
        packed = pack({"number": self._number, "ask": question, "with": arguments})
        if len(packed) > _QUESTION:
            raise HoldfastError(f"A question to the arena {self._file.name!r} is too long. Shorten its options.")
        try:
            due = time.monotonic() + self._file.timeout
            with suppress(BrokenPipeError):  # why it is gone is seen below
                self._send(struct.pack("<I", len(packed)) + packed, due)
            answer = self._receive(limit, due)
            number = answer.get("number") if isinstance(answer, dict) else None
            if type(number) is not int or number != self._number:
                raise HoldfastError("its answer is not one to the question")
            return read(answer.get("answer"))
        except HoldfastError as fault:
            raise self._failure(question, str(fault)) from None
        except BaseException:  # Ctrl-C: the answer would be taken for that to the next question
            self._end()
            raise

    @property
    def running(self) -> bool:
        """Whether it can be asked."""
        return self._end.alive

    def close(self) -> None:
        """End the process, and what it started."""
        self._end()

    def _send(self, content: bytes, due: float) -> None:
        """Write a question. The pipe of a process that reads none is full some time."""
        self._selector.register(self._questions, selectors.EVENT_WRITE)
        try:
            while content:
                ready = self._ready(due)
                if self._questions in ready:
                    content = content[os.write(self._questions, content) :]
        finally:
            self._selector.unregister(self._questions)

    def _receive(self, limit: int, due: float) -> Any:
        (size,) = struct.unpack("<I", self._read(4, due))
        if size > limit:
            raise HoldfastError(f"it announces an answer of {size:,} bytes, at most {limit:,} are allowed")
        return unpack(self._read(size, due), limit)

    def _read(self, size: int, due: float) -> bytes:
        content = bytearray()
        while len(content) < size:
            ready = self._ready(due)
            if self._answers in ready:
                found = os.read(self._answers, size - len(content))
                if not found:
                    raise HoldfastError(self._ending())
                content += found
            elif not ready and self._process.poll() is not None:
                raise HoldfastError(self._ending())
        return bytes(content)

    def _ready(self, due: float) -> list[int]:
        """Wait a little for a pipe that can be used; what the process prints is read on the way."""
        left = due - time.monotonic()
        if left <= 0:
            raise HoldfastError(f"it did not answer in {self._file.timeout:g} s")
        ready = [key.fd for key, _ in self._selector.select(min(left, _POLL))]
        if self._errors in ready:
            self._listen()
        return ready

    def _listen(self) -> None:
        """Read what it prints, and keep the end."""
        with suppress(BlockingIOError):
            found = os.read(self._errors, 2**16)
            self._printed = (self._printed + found)[-_WORDS:]
            if not found:
                self._selector.unregister(self._errors)

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=_POLL)
            return f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"
        return "it closed its output"

    def _failure(self, question: str, fault: str) -> ArenaError:
        """End the process, and say what it did."""
        _kill_group(self._process)
        for _ in range(_REST):
            if self._errors in (key.fd for key, _ in self._selector.select(0)):
                self._listen()
        self._end()
        words = " | ".join(line.strip() for line in self._printed.decode(errors="replace").splitlines() if line.strip())
        said = f" It last printed: {words}" if words else ""
        return ArenaError(f"The worker of the arena {self._file.name!r} failed in {question!r}: {fault}.{said}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    _kill_group(process)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all that it started: they are a group of their own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
