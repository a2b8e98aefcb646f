"""Methods of continual learning: `method.py` is the protocol, every other file is one method."""

from __future__ import annotations

from holdfast.methods.er import ExperienceReplay
from holdfast.methods.finetune import Finetune
from holdfast.methods.joint import Joint
from holdfast.methods.method import Method
from holdfast.methods.sequential import Sequential

METHODS: dict[str, Method] = {
    "er": ExperienceReplay(),
    "sequential": Sequential(),
    "joint": Joint(),
    "finetune": Finetune(),
}
