"""`python -m holdfast`."""

from holdfast.cli import entry

entry()
