"""Policies: our own small `nano`, and the border to those LeRobot ships."""
