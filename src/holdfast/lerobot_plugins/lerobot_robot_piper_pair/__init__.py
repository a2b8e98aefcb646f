"""LeRobot imports this package by its name's prefix. That registers `--robot.type=piper_pair`, and the arms that people
move by hand as `--teleop.type=piper_leaders`: the prefix of any one kind of plugin is enough for both.
"""

from holdfast.robots.config_leaders import PiperLeadersConfig
from holdfast.robots.config_piper import PiperPairConfig
from holdfast.robots.leaders import PiperLeaders
from holdfast.robots.piper import PiperPair

__all__ = ["PiperLeaders", "PiperLeadersConfig", "PiperPair", "PiperPairConfig"]
