"""Parts of the pi0.5 benchmark."""
