"""While a GPU learns a stage, the frames of the next one are decoded in a process of their own."""

import json
import subprocess
import time
from dataclasses import replace

import pytest
from rich.console import Console
from test_frames import train, weights
from toys import TINY

from holdfast import catalog
from holdfast.commands.flags import parse
from holdfast.core.json_records import from_json, to_json
from holdfast.core.records import Mapping
from holdfast.data.cache.ahead import FutureCache
from holdfast.data.cache.cache import open_planned, plan_cache
from holdfast.data.cache.files import CacheFiles
from holdfast.data.lerobot.source import Source, open_source
from holdfast.data.resize import Resize
from holdfast.embodiments import EMBODIMENTS, load
from holdfast.replay.config import ReplayConfig
from holdfast.runs.folder import RunFolder
from holdfast.train.config import TrainConfig
from holdfast.train.plan import stages_of
from holdfast.train.setting import Setting

SIZE = Resize(16, 16, antialias=True)
ON_CPU = Setting.frames_ahead


def on_gpu(setting, stage, resize):
    return ON_CPU(replace(setting, device="cuda"), stage, resize)


@pytest.fixture
def setting(toy):
    flags = [f"--stream={toy}/stream.toml", *TINY, "--tasks=[reach, lift]", "--steps=4", f"--cache.root={toy}/frames"]
    config = parse(TrainConfig, "train", flags, "")
    stream = catalog.load_stream(config.stream, config.data_root).only(config.tasks)
    run = RunFolder(toy / "run", print)
    return Setting(config, stream, run, load("piper_x_pair"), "cpu", Console(quiet=True))


def test_the_frames_of_the_next_stage_are_there_when_it_begins(setting, monkeypatch):
    first, _ = stages_of(setting.config, setting.stream)
    source, config = open_source(setting.stream.tasks[1].dataset), setting.config.cache
    spec = plan_cache(source, SIZE, config)
    with on_gpu(setting, first, SIZE):
        while len(CacheFiles(config.folder, spec).read_blocks()) < len(spec.blocks) * len(spec.cameras):
            time.sleep(0.01)
    monkeypatch.setattr(Source, "images", None)  # nothing is decoded any more
    assert len(open_planned(source, spec, config, Console(quiet=True)).action) == len(source.action)


def test_a_cpu_the_last_stage_and_a_run_that_keeps_its_disk_small_start_no_process(setting, monkeypatch):
    first, last = stages_of(setting.config, setting.stream)
    small = replace(setting, config=replace(setting.config, replay=ReplayConfig(store="copy")))
    monkeypatch.setattr(subprocess, "Popen", None)
    with setting.frames_ahead(first, SIZE), on_gpu(setting, last, SIZE), on_gpu(small, first, SIZE):
        pass


@pytest.mark.parametrize("robot", EMBODIMENTS)
def test_what_decides_a_cache_passes_between_processes(setting, robot):
    task = replace(setting.stream.tasks[0], mapping=Mapping(cameras={"head": "top"}, dimensions=("a", "b"), fps=12.5))
    for resize in (SIZE, None):
        cache = FutureCache(task, load(robot), resize, setting.config.cache)
        assert from_json(FutureCache, json.loads(json.dumps(to_json(cache))), "") == cache


def test_weights_are_the_same(toy, monkeypatch):
    first = weights(train(toy, name="first"))
    monkeypatch.setattr(Setting, "frames_ahead", on_gpu)
    assert weights(train(toy, f"--cache.root={toy}/others", name="second")) == first


def test_a_dataset_that_cannot_be_read_yet_stops_nothing(setting):
    first, _ = stages_of(setting.config, setting.stream)
    missing = replace(setting.stream.tasks[1], dataset="/nowhere")
    stream = replace(setting.stream, tasks=(setting.stream.tasks[0], missing))
    with on_gpu(replace(setting, stream=stream), first, SIZE):
        pass
