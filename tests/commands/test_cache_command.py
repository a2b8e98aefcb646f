import json
import os
import time

import pytest
from rich.console import Console

from holdfast.cli import main
from holdfast.data.cache.cache import open_cache
from holdfast.data.cache.config import CacheConfig
from holdfast.data.lerobot.source import open_source
from holdfast.data.resize import Resize


def opened(dataset, root, kind, resize=None):
    return open_cache(open_source(str(dataset)), resize, CacheConfig(str(root), kind), Console(quiet=True))


@pytest.fixture
def shelf(recorded, tmp_path):
    """Two caches: native raw of `reach`, used long ago, and a smaller JPEG of `lift`."""
    old = opened(recorded / "reach", tmp_path, "raw")
    new = opened(recorded / "lift", tmp_path, "jpeg", Resize(16, 16, True))
    then = time.time() - 10 * 86400
    os.utime(tmp_path / old.spec.key / "cache.json", (then, then))
    return tmp_path, old.spec.key, new.spec.key


def listed(root, capsys):
    capsys.readouterr()
    assert main(["cache", "ls", f"--root={root}", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_ls_tells_dataset_size_format_and_use(shelf, capsys):
    root, old, new = shelf
    first, second = listed(root, capsys)
    assert (first["key"], second["key"]) == (new, old)
    assert first["dataset"].endswith("/lift")
    assert (first["images"], first["format"], first["frames"], first["whole"]) == ("2 x 16x16", "jpeg", 84, True)
    assert (second["images"], second["format"]) == ("2 x 32x32", "raw")
    assert second["bytes"] >= 84 * 2 * 3 * 32 * 32
    assert main(["cache", "ls", f"--root={root}"]) == 0
    out = capsys.readouterr().out
    assert "10 days ago" in out
    assert "just now" in out
    assert "frame caches: 2" in out


def test_rm_by_key_by_age_and_all(shelf, capsys):
    root, _, new = shelf
    assert main(["cache", "rm", "--unused-for", "9d", f"--root={root}"]) == 0
    assert [c["key"] for c in listed(root, capsys)] == [new]
    assert main(["cache", "rm", new[:6], f"--root={root}"]) == 0
    assert listed(root, capsys) == []
    (root / "quantiles").mkdir()
    assert main(["cache", "rm", "--all", f"--root={root}"]) == 0
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rm"], "Say what to remove"),
        (["rm", "zzz"], "Unknown frame cache 'zzz'"),
        (["rm", "--unused-for", "soon"], "like 12h, 30d or 4w, got 'soon'"),
    ],
)
def test_mistakes_are_explained(shelf, capsys, words, said):
    assert main(["cache", *words, f"--root={shelf[0]}"]) == 2
    assert said in capsys.readouterr().err
    assert len(listed(shelf[0], capsys)) == 2


def test_a_cache_that_is_read_may_be_removed(shelf, recorded, capsys):
    import torch

    root, old, _ = shelf
    cache = opened(recorded / "reach", root, "raw")
    out = torch.empty(1, 3, 32, 32, dtype=torch.uint8)
    assert main(["cache", "rm", old, f"--root={root}"]) == 0
    cache.images("observation.images.head", torch.tensor([40]), out)
    assert out.float().std() > 1
    again = opened(recorded / "reach", root, "raw")
    assert (root / again.spec.key / "cache.json").exists()
