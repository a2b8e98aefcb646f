"""Whether the model hub has a dataset or a policy: asked once, in seconds, before anything heavy is imported.

Its own client tries an unreachable hub again and again, for up to a minute.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from holdfast.core.errors import HoldfastError

PATIENCE = 2.0  # seconds
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_ABSENT = (401, 404)  # to somebody unknown, the hub answers 401 for what does not exist

type RepositoryKind = Literal["dataset", "model"]


def looks_like_hub_id(name: str) -> bool:
    """Whether a name can be an id of the hub, like `user/name`."""
    return _ID.fullmatch(name) is not None


def check_on_hub(name: str, kind: RepositoryKind, hint: str = "") -> None:
    """Raise an error if the hub does not have `name`, or does not answer. What is in the hub's cache here passes.

    Args:
        name: An id, like `user/name`.
        kind: What it is.
        hint: What the user may have meant, as a sentence after a space.
    """
    from huggingface_hub import constants

    if _is_cached(name, kind):
        return
    what = f"{name} is not a folder here, and the hub"
    if constants.HF_HUB_OFFLINE:
        raise HoldfastError(f"{what} is switched off by HF_HUB_OFFLINE.{hint} {_download(name, kind)}")
    status = _ask(f"{constants.ENDPOINT}/api/{kind}s/{name}")
    if status is None:
        raise HoldfastError(f"{what} cannot be reached.{hint} {_download(name, kind)}")
    if status in _ABSENT:
        raise HoldfastError(
            f"{what} has no {kind} of that name that you may read.{hint} Check the name; `hf auth login` if it is "
            "private."
        )


def _download(name: str, kind: RepositoryKind) -> str:
    return (
        f"Check the name; or download it where there is network (`hf download --repo-type={kind} {name} "
        "--local-dir=FOLDER`) and give the folder."
    )


def _is_cached(name: str, kind: RepositoryKind) -> bool:
    from huggingface_hub import constants

    lerobot = Path(os.environ.get("HF_LEROBOT_HOME", Path(constants.HF_HOME) / "lerobot")).expanduser()
    folder = f"{kind}s--{name.replace('/', '--')}"
    places = [Path(constants.HF_HUB_CACHE) / folder]
    if kind == "dataset":
        places += [lerobot / name, lerobot / "hub" / folder]
    return any(place.is_dir() for place in places)


def _ask(url: str) -> int | None:
    """The status of an answer; None if there is none in time. A problem of another kind is left to the hub's client."""
    import socket
    import threading
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    from huggingface_hub import get_token

    token = get_token()
    request = Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    found: list[int | None] = []

    def ask() -> None:
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                found.append(answer.status)
        except HTTPError as error:
            found.append(error.code)
        except URLError as error:
            absent = isinstance(error.reason, socket.gaierror | ConnectionError | TimeoutError)
            found.append(None if absent else 0)
        except OSError:
            found.append(None)

    asking = threading.Thread(target=ask, daemon=True)  # resolving a name knows no timeout
    asking.start()
    asking.join(PATIENCE)
    return found[0] if found else None
