"""Experience replay: which episodes are kept, when they are replayed, and in what shares."""
