"""Measuring what a policy can do. Never imports `train`: the two meet in the run folder."""
