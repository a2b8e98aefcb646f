"""What every part of Holdfast stands on: errors, records, files that survive a kill, progress, processes."""
