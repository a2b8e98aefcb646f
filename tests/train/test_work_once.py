"""What costs time is done once per dataset and stage."""

from collections import Counter

from toys import TINY, stream_text

from holdfast.cli import main
from holdfast.data.cache import cache
from holdfast.data.lerobot import source
from holdfast.train import engine


def test_a_dataset_is_hashed_and_its_cache_described_once_in_a_stage(toy, monkeypatch):
    done, stages = Counter(), []

    def count(module, name):
        original = getattr(module, name)

        def counted(first, *rest):
            dataset = first.name if name == "hash_files" else first.root.name
            done[name, stages[-1], dataset] += 1
            return original(first, *rest)

        monkeypatch.setattr(module, name, counted)

    def begin(setting, stage, previous, prepare=engine.prepare_stage):
        stages.append(stage.name)
        return prepare(setting, stage, previous)

    monkeypatch.setattr(engine, "prepare_stage", begin)
    count(source, "hash_files")
    count(cache, "make_spec")
    (toy / "stream.toml").write_text(stream_text(("reach", "lift")))
    flags = ["--steps=2", "--batch_size=4", "--device=cpu", "--replay.frequency=0.5", f"--output={toy}/run"]
    assert main(["train", f"--stream={toy}/stream.toml", *flags, *TINY]) == 0
    opened = [("reach", "reach"), ("lift", "lift"), ("lift", "reach")]
    assert done == {(name, *where): 1 for name in ("hash_files", "make_spec") for where in opened}
