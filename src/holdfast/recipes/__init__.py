"""Runs that are worth a name. A recipe is a short function that returns a config."""
