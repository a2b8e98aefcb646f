"""Robots that a policy drives: `loop.py` tells the story of an attempt, the other files are its parts."""
