"""Training on a stream: `engine.py` tells the story, the other files are its parts."""
