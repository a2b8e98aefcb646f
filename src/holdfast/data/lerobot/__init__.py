"""LeRobot datasets on disk: reading, writing, copying, converting."""
