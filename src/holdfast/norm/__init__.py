"""Normalization: statistics in one pass, the four strategies, and the range check before every stage."""
