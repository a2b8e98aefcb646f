"""Holdfast: a robot policy learns new tasks one after another and keeps the old ones.

The names in `__all__` are the Python API. Each is imported when it is first used, so `import holdfast` is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.api.evaluate import evaluate as evaluate
    from holdfast.api.policy import TrainedPolicy as TrainedPolicy
    from holdfast.api.record import record as record
    from holdfast.api.train import train as train
    from holdfast.api.trained import TrainedRun as TrainedRun
    from holdfast.api.trained import TrainedStage as TrainedStage
    from holdfast.api.trained import load as load
    from holdfast.arenas.arena import Arena as Arena
    from holdfast.core.errors import HoldfastError as HoldfastError
    from holdfast.core.observation import Observation as Observation
    from holdfast.data.cache.config import CacheConfig as CacheConfig
    from holdfast.methods.method import Method as Method
    from holdfast.norm.config import NormConfig as NormConfig
    from holdfast.policies.config import AugmentConfig as AugmentConfig
    from holdfast.policies.config import PolicyChoice as PolicyChoice
    from holdfast.replay.config import ReplayConfig as ReplayConfig
    from holdfast.replay.selection import Selection as Selection
    from holdfast.train.config import CheckpointConfig as CheckpointConfig
    from holdfast.train.config import LogConfig as LogConfig
    from holdfast.train.config import OptimConfig as OptimConfig
    from holdfast.train.config import TrainConfig as TrainConfig

__version__ = "0.1.0"

_MODULES = {
    "load": "holdfast.api.trained",
    "record": "holdfast.api.record",
    "train": "holdfast.api.train",
    "evaluate": "holdfast.api.evaluate",
    "TrainedRun": "holdfast.api.trained",
    "TrainedStage": "holdfast.api.trained",
    "TrainedPolicy": "holdfast.api.policy",
    "TrainConfig": "holdfast.train.config",
    "PolicyChoice": "holdfast.policies.config",
    "ReplayConfig": "holdfast.replay.config",
    "NormConfig": "holdfast.norm.config",
    "OptimConfig": "holdfast.train.config",
    "AugmentConfig": "holdfast.policies.config",
    "CacheConfig": "holdfast.data.cache.config",
    "CheckpointConfig": "holdfast.train.config",
    "LogConfig": "holdfast.train.config",
    "Observation": "holdfast.core.observation",
    "Method": "holdfast.methods.method",
    "Selection": "holdfast.replay.selection",
    "Arena": "holdfast.arenas.arena",
    "HoldfastError": "holdfast.core.errors",
}
__all__ = ["__version__", *_MODULES]

if not TYPE_CHECKING:
    # Importing a package binds its name here, but only the first time. Now that it is done, these names are free for
    # the functions; `from holdfast.train.config import ...` works as before.
    for _name in ("train", "evaluate"):
        import_module(f"holdfast.{_name}")
        del globals()[_name]

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(_MODULES[name]), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
