"""Where actions come from: a policy server over a websocket, or a policy in this process.

A connection that breaks, or whose answer comes too late, is closed and made anew, so that no answer can ever be taken
for that of another question.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from PIL import Image

from holdfast.core.errors import HoldfastError
from holdfast.core.observation import Question
from holdfast.serve.wire import LIMIT, WireError, pack, unpack

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from holdfast.policies.pilot import Pilot

_OPENING = 5.0  # seconds for one attempt to connect


class UnansweredError(HoldfastError):
    """A question has no answer: the server was late, gone, or did not understand."""


@dataclass(frozen=True)
class About:
    """What an answerer says of itself: its hashes, what it wants to see, and how many actions an answer has."""

    names: tuple[str, ...]
    cameras: dict[str, tuple[int, int]]
    steps: int
    policy: str = ""
    normalization: str = ""
    tasks: tuple[str, ...] = ()


class Answerer(Protocol):
    """Anything that turns a question into actions. Only one thread uses it."""

    def connect(self) -> About:
        """Be ready for a question; costs nothing where that is so already."""

    def answer(self, question: Question, seconds: float) -> np.ndarray:
        """Actions (steps, dimensions) from the question's control step on; `UnansweredError` after so many seconds."""

    def close(self) -> None:
        """Be gone."""


class PolicyClient:
    """A policy server that speaks openpi's protocol."""

    def __init__(self, url: str, token: str = "") -> None:
        """Name the server; nothing is connected yet.

        Args:
            url: Like ws://127.0.0.1:8000.
            token: Its secret, where it asks for one.
        """
        if not url.startswith(("ws://", "wss://")):
            raise HoldfastError(f"A server is named like ws://127.0.0.1:8000, got {url!r}.")
        self._url = url
        self._headers = {"Authorization": f"Api-Key {token}"} if token else None
        self._socket: ClientConnection | None = None
        self._about: About

    def connect(self) -> About:
        """Connect where there is no connection, and read what the server says of itself."""
        from websockets.exceptions import WebSocketException
        from websockets.protocol import State
        from websockets.sync.client import connect

        if self._socket is not None and self._socket.state is not State.OPEN:
            self.close()  # it went away since it was last asked
        if self._socket is None:
            try:
                self._socket = connect(
                    self._url,
                    additional_headers=self._headers,
                    compression=None,
                    max_size=LIMIT,
                    open_timeout=_OPENING,
                    close_timeout=0.1,
                    proxy=None,
                )
                self._about = _about(self._message(_OPENING))
            except (OSError, WebSocketException, WireError) as error:
                self.close()
                raise UnansweredError(f"No policy server answers at {self._url}: {_said(error)}.") from None
        return self._about

    def answer(self, question: Question, seconds: float) -> np.ndarray:
        """Ask, and wait for the answer to this question alone. A connection that broke is not made again here."""
        from websockets.exceptions import ConnectionClosed, WebSocketException

        until = time.monotonic() + seconds
        try:
            if self._socket is None:
                raise UnansweredError("it is not connected")
            self._socket.send(pack(_request(question, self._about)))
            return _actions(self._message(until - time.monotonic()), self._about)
        except ConnectionClosed:
            self.close()
            raise UnansweredError(f"The policy server at {self._url} is gone: the connection broke.") from None
        except (OSError, WebSocketException, WireError, UnansweredError) as error:
            self.close()
            raise UnansweredError(f"The policy server at {self._url} failed: {_said(error)}.") from None

    def close(self) -> None:
        """Drop the connection; `connect` makes a new one."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def _message(self, seconds: float) -> dict[str, Any]:
        assert self._socket is not None
        found = self._socket.recv(timeout=max(seconds, 0.0))
        if isinstance(found, str):
            raise WireError(f"it says: {found}")
        message = unpack(found)
        if not isinstance(message, dict):
            raise WireError("its message is no map")
        return message


class InProcess:
    """A saved policy, computed here."""

    def __init__(self, folder: Path, names: tuple[str, ...], device: str = "cpu") -> None:
        """Name the policy; it is loaded by `connect`.

        Args:
            folder: A stage's checkpoint, or any folder of a LeRobot policy.
            names: Of the robot's dimensions, in order.
            device: Where it computes.
        """
        self._folder, self._names, self._device = folder, names, device
        self._pilot: Pilot | None = None

    def connect(self) -> About:
        """Load the policy."""
        if self._pilot is None:
            from holdfast.policies.pilot import Pilot

            self._pilot = Pilot(self._folder, self._names, self._device)
        pilot = self._pilot
        return About(self._names, dict.fromkeys(pilot.cameras, pilot.size), pilot.horizon)

    def answer(self, question: Question, seconds: float) -> np.ndarray:
        """Compute the actions, however long that takes."""
        assert self._pilot is not None
        return self._pilot.answer([replace(question, images=_fitted(question.images, self.connect()))])[0]

    def close(self) -> None:
        """Nothing to let go of."""


def _about(said: dict[str, Any]) -> About:
    try:
        return About(
            names=tuple(map(str, said["names"])),
            cameras={str(name): (int(size[0]), int(size[1])) for name, size in said["cameras"].items()},
            steps=int(said["horizon"]),
            policy=str(said.get("policy", "")),
            normalization=str(said.get("normalization", "")),
            tasks=tuple(map(str, said.get("tasks", ()))),
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise WireError(f"it does not say what it serves ({error!r}); is it `holdfast serve`?") from None


def _request(question: Question, about: About) -> dict[str, Any]:
    return {
        "observation.state": question.state.astype(np.float32),
        **{f"observation.images.{name}": image for name, image in _fitted(question.images, about).items()},
        "prompt": question.task.name,
        "seed": question.seed,
        "number": question.number,
    }


def _fitted(images: dict[str, np.ndarray], about: About) -> dict[str, np.ndarray]:
    """The images a policy wants in the size it wants them; their shape is never changed."""
    fitted = {}
    for name, (height, width) in about.cameras.items():
        if name not in images:
            raise UnansweredError(f"The policy looks through camera {name!r}, and the robot has {', '.join(images)}.")
        image = images[name]
        if image.shape[0] * width != image.shape[1] * height:
            raise UnansweredError(
                f"Camera {name!r} gives {image.shape[0]}x{image.shape[1]} and the policy wants {height}x{width}, which "
                "has another shape. Set the camera to one of that shape."
            )
        if image.shape[:2] != (height, width):
            image = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
        fitted[name] = np.ascontiguousarray(image)
    return fitted


def _actions(reply: dict[str, Any], about: About) -> np.ndarray:
    actions = reply.get("actions")
    if not isinstance(actions, np.ndarray) or actions.ndim != 2 or actions.shape[1] != len(about.names):
        raise WireError(f"its answer holds no actions of {len(about.names)} dimensions")
    return actions.astype(np.float64)  # NaN and other nonsense is the business of the limits


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__).rstrip(".")
