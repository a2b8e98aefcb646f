"""Robots that a policy drives. `robot.py` is the protocol, `loop.py` runs an attempt, `session.py` many of them."""
