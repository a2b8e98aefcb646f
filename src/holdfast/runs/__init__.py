"""The run folder: all paths, records and logs of a run."""
