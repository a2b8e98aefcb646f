"""A playground of plain toys and the skills shown on it: what a base policy learns from before it meets any task."""
