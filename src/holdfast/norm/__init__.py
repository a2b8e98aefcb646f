"""Normalization: statistics in one pass, the four strategies, and the audit that guards a run."""
