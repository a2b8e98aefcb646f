"""The secret key of a run's tickets.

The first form of `scoring.sqlite` had no key: whoever guessed an attempt could compute its ticket. Such a file gets a
key when it is opened. The tickets in its rows stay, and are hashed once more with the key when they are read.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TicketKey:
    """A key; the tickets of rows up to `keyless` were computed without one."""

    secret: str
    keyless: int = 0

    @classmethod
    def parse(cls, text: object) -> TicketKey | None:
        """A key as it is stored; None if it is not one."""
        found = re.fullmatch(r"([0-9a-f]{64})(?: ([0-9]{1,18}))?", text) if isinstance(text, str) else None
        return cls(found[1], int(found[2] or 0)) if found else None

    def ticket(self, parts: Sequence[object]) -> str:
        """The ticket of the attempt that `parts` name: it reveals nothing about them."""
        text = json.dumps(parts).encode()
        return self._keyed(_keyless(text) if self.keyless else text)

    def of_row(self, ticket: str, row: int) -> str:
        """The ticket of a stored row."""
        return self._keyed(ticket.encode()) if row <= self.keyless else ticket

    def _keyed(self, text: bytes) -> str:
        return hmac.digest(self.secret.encode(), text, "sha256").hex()[:20]


def _keyless(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest()[:20].encode()
