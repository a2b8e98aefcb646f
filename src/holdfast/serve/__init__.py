"""A policy on its way to a robot and back: the scoring console."""
