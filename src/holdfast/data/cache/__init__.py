"""Decoded frames on disk, shared between runs."""
