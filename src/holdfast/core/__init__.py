"""Shared basics: errors, records, files that survive a kill, progress, processes."""
