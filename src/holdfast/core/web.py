"""Which HTTP requests are refused, by the scoring console and the policy server alike.

A page of another site can make its visitor's browser send requests here. The browser then names that site in `Origin`,
and sends JSON only if we allow it, which we never do. A site whose name was made to point at this machine shows in
`Host`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

READING = ("GET", "HEAD")  # methods that change nothing


@dataclass(frozen=True)
class Refusal:
    """The answer to a request that is refused."""

    status: int
    text: str


def refusal(
    method: str, headers: Callable[[str], Sequence[str]], *, local: bool, has_page: bool, limit: int = 0
) -> Refusal | None:
    """Why a request is refused, or None.

    Args:
        method: Its method, such as POST.
        headers: Gives all values of a header.
        local: Whether only this machine is served, so that any other host name is a trick.
        has_page: Whether the server has a page of its own, whose requests are served.
        limit: The most bytes of its body.
    """
    hosts = [host.lower() for host in headers("host")]
    if local and not all(is_local(_name(host)) for host in hosts):
        return Refusal(421, "Only this machine is served here, as 127.0.0.1, localhost or ::1.")
    own = hosts if has_page and len(hosts) == 1 else []
    if any(origin.lower().partition("://")[2] not in own for origin in headers("origin")):
        return Refusal(403, "Requests of other web pages are refused.")
    if method not in READING and [_kind(value) for value in headers("content-type")] != ["application/json"]:
        return Refusal(415, "Only application/json is taken here.")
    if any(not value.isdecimal() or len(value) > 18 or int(value) > limit for value in headers("content-length")):
        return Refusal(413, f"A request has at most {limit} bytes here.")
    return None


def is_local(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _name(host: str) -> str:
    """A `Host` header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
