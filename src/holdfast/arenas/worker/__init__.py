"""What runs in a simulator's own Python: `holdfast_worker.py`, and simulators that derive from it."""
