"""Holdfast: a robot policy learns new tasks one after another and keeps the old ones."""

__version__ = "0.1.0"
