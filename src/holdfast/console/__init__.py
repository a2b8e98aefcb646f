"""The scoring console: people watch a robot or its videos and tick the rubric on a page."""
