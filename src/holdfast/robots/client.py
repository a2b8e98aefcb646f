"""Where actions come from: a policy server over a websocket, or a policy in this process.

A connection that breaks, or whose answer is late, is closed and opened again, so that no answer can be taken for the
answer to another question.
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
from holdfast.core.wire import LIMIT, WireError, pack, unpack

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from holdfast.policies.pilot import Pilot

_OPENING = 5.0  # seconds for one try to connect


class UnansweredError(HoldfastError):
    """A question has no answer: the server was late, gone, or refused it."""


@dataclass(frozen=True)
class About:
    """What a policy says of itself: what it needs to see, how many actions an answer has, and its hashes."""

    names: tuple[str, ...]  # of the action's dimensions, in order
    cameras: dict[str, tuple[int, int]]  # height and width of the images it reads
    answer_steps: int  # actions of an answer; how many of them are executed is the loop's `horizon`
    weights: str = ""  # their SHA-256
    normalization: str = ""
    tasks: tuple[str, ...] = ()
    state_names: tuple[str, ...] = ()  # where they are not those of the action
    fps: float | None = None  # control steps a second that it was trained at; None where it is not known


class Answerer(Protocol):
    """A policy that can be asked. Only one thread uses it."""

    def connect(self) -> About:
        """Get ready for questions; costs nothing where that is done already."""

    def answer(self, question: Question, seconds: float) -> np.ndarray:
        """Actions (steps, dimensions) from the question's control step on; `UnansweredError` if it takes longer."""

    def close(self) -> None:
        """Release what `connect` took."""


class PolicyClient:
    """A client of a policy server, in openpi's protocol."""

    def __init__(self, url: str, token: str = "") -> None:
        """Check the address; `connect` opens the connection.

        Args:
            url: Like ws://127.0.0.1:8000.
            token: The server's secret, if it has one.
        """
        if not url.startswith(("ws://", "wss://")):
            raise HoldfastError(f"A server is named like ws://127.0.0.1:8000, got {url!r}.")
        self._url = url
        self._headers = {"Authorization": f"Api-Key {token}"} if token else None
        self._socket: ClientConnection | None = None
        self._about: About

    def connect(self) -> About:
        """Open a connection if there is none, and read the server's greeting."""
        from websockets.exceptions import WebSocketException
        from websockets.protocol import State
        from websockets.sync.client import connect

        if self._socket is not None and self._socket.state is not State.OPEN:
            self.close()  # the server has gone since the last question
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
        """Ask and wait for the answer. A broken connection is closed; only `connect` opens a new one."""
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
        """Close the connection; `connect` opens a new one."""
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
    """A saved policy, computed in this process."""

    def __init__(self, folder: Path, names: tuple[str, ...], device: str = "cpu") -> None:
        """Say which policy; `connect` loads it.

        Args:
            folder: A stage's checkpoint, or any folder of a LeRobot policy.
            names: Of the robot's dimensions, in order; the policy's, where its folder does not name them.
            device: Where it computes.
        """
        self._folder, self._names, self._device = folder, names, device
        self._pilot: Pilot | None = None
        self._about: About

    def connect(self) -> About:
        """Load the policy."""
        if self._pilot is None:
            from holdfast.policies.pilot import Pilot

            said = {"names": self._names, **_described(self._folder)}
            self._pilot = pilot = Pilot(self._folder, self._names, self._device)
            self._about = About(
                cameras=dict.fromkeys(pilot.cameras, pilot.size), answer_steps=pilot.answer_steps, **said
            )
        return self._about

    def answer(self, question: Question, seconds: float) -> np.ndarray:
        """Compute the actions, however long that takes."""
        assert self._pilot is not None
        return self._pilot.answer([replace(question, images=_fitted(question.images, self._about))])[0]

    def close(self) -> None:
        """Nothing to release."""


def _described(folder: Path) -> dict[str, Any]:
    """What a bundle or a stage's checkpoint says of its dimensions and rate; nothing in other folders."""
    from holdfast.runs.checkpoint import Checkpoint
    from holdfast.serve.bundle import ABOUT, load

    if (folder / ABOUT).exists():
        bundle = load(folder)
        return {"names": bundle.names, "state_names": bundle.state_names, "fps": bundle.fps}
    checkpoint = Checkpoint(folder)
    if not checkpoint.exists:
        return {}
    schema = checkpoint.schema
    names, state_names = (tuple(schema.get(key, schema["names"])) for key in ("names", "state_names"))
    return {"names": names, "state_names": state_names, "fps": schema["fps"]}


def _about(said: dict[str, Any]) -> About:
    try:
        return About(
            names=tuple(map(str, said["names"])),
            cameras={str(name): (int(size[0]), int(size[1])) for name, size in said["cameras"].items()},
            answer_steps=int(said["horizon"]),
            weights=str(said.get("policy", "")),
            normalization=str(said.get("normalization", "")),
            tasks=tuple(map(str, said.get("tasks", ()))),
            state_names=tuple(map(str, said.get("state_names", ()))),
            fps=float(said["fps"]) if said.get("fps") is not None else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
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
    """The images a policy reads, in the size it reads. The aspect ratio is never changed."""
    fitted = {}
    for name, (height, width) in about.cameras.items():
        if name not in images:
            raise UnansweredError(f"The policy looks through camera {name!r}, and the robot has {', '.join(images)}.")
        image = images[name]
        if image.shape[0] * width != image.shape[1] * height:
            raise UnansweredError(
                f"Camera {name!r} gives {image.shape[0]}x{image.shape[1]} and the policy wants {height}x{width}, which "
                "has another aspect ratio. Set the camera to a size of that ratio."
            )
        if image.shape[:2] != (height, width):
            image = np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR))
        fitted[name] = np.ascontiguousarray(image)
    return fitted


def _actions(reply: dict[str, Any], about: About) -> np.ndarray:
    actions = reply.get("actions")
    if not isinstance(actions, np.ndarray) or actions.ndim != 2 or actions.shape[1] != len(about.names):
        raise WireError(f"its answer holds no actions of {len(about.names)} dimensions")
    return actions.astype(np.float64)  # the limits deal with NaN and other nonsense


def _said(error: Exception) -> str:
    return (str(error) or type(error).__name__).rstrip(".")
