"""One page about one or more runs: what was learned, what was kept, and how it was trained."""
