"""Imports what commands and tests import, so that Python compiles these modules ahead of the first command.

Compiling all files of all packages takes three times as long, and most of them are never used.
"""

import importlib

MODULES = """
holdfast.train.engine holdfast.evaluate.engine holdfast.arenas.twin holdfast.commands.run holdfast.report
holdfast.serve.server lerobot.policies.factory lerobot.datasets.lerobot_dataset lerobot.scripts.lerobot_eval
torch._dynamo torch.distributed.fsdp matplotlib.pyplot scipy.stats scipy.optimize pandas peft ray.cluster_utils
piper_sdk pytest xdist.remote hypothesis playwright.sync_api mkdocs.commands.build
"""

for name in MODULES.split():
    importlib.import_module(name)
