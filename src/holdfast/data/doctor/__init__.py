"""Checks datasets for faults before training."""
