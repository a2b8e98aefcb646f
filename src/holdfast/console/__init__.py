"""The scoring console: people watch a robot or its videos and score them on a page."""
