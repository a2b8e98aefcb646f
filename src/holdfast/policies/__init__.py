"""Policies: our own `nano` and `pi05_fast`, and the adapter to those of LeRobot."""
