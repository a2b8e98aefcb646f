"""Experience replay: one task after the other, with kept episodes mixed in."""

from __future__ import annotations

from holdfast.methods.method import Method


class ExperienceReplay(Method):
    """One task after the other, with kept episodes of earlier tasks mixed in."""

    replays = True
