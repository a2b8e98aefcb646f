"""The run folder: the one owner of every path, record and log of a run."""
