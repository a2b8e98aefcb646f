"""A policy on its way to a robot and back: bundles, the wire, the server, the scoring console."""
