"""`pi05_fast`: pi0.5 with LeRobot's weights and answers, at several times its speed.

LeRobot finds its parts by their names: `configuration_pi05`, `modeling_pi05`, `processor_pi05`.
"""
