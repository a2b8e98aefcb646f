"""A policy on its way to a robot: bundles, the wire, the server."""
