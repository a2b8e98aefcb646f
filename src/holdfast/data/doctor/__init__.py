"""Faults of datasets, found before they cost a training run."""
