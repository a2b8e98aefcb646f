"""One task after the other, nothing kept."""

from __future__ import annotations

from holdfast.methods.method import Method


class Sequential(Method):
    """One task after the other with nothing kept: the baseline that forgets."""
