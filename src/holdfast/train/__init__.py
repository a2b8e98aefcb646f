"""Training on a stream: start reading at `engine.py`, the other files are its parts."""
