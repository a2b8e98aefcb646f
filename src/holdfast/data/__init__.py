"""From a LeRobot dataset on disk to the batch of a step: source, frames, sampler, batches, doctor."""
