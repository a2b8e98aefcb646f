"""From a LeRobot dataset on disk to the batch of a step: reading, checking, caching, sampling, loading."""
