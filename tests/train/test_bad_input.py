"""Every mistake we could think of gives one clear error and exit code 2 before anything is trained."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toys import TINY, stream_text

from holdfast.cli import main


def flags(*more):
    return lambda toy: more


def stream(text):
    def spoil(toy):
        (toy / "stream.toml").write_text(text)
        return ()

    return spoil


def info(change, dataset="reach"):
    def spoil(toy):
        path = toy / dataset / "meta" / "info.json"
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        return ()

    return spoil


def table(change, dataset="reach"):
    def spoil(toy):
        path = next((toy / dataset / "data").rglob("*.parquet"))
        pq.write_table(change(pq.read_table(path)), path)
        return ()

    return spoil


def with_nan(content):
    actions = np.stack(content["action"].to_numpy())
    actions[7, 3] = np.nan
    column = pa.array(list(actions), type=content.schema.field("action").type)
    return content.set_column(content.schema.get_field_index("action"), "action", column)


def truncated(toy):
    path = next((toy / "reach" / "data").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-200])
    return ()


def no_video(toy):
    shutil.rmtree(toy / "reach" / "videos" / "observation.images.head")
    return ()


def garbage_header(toy):
    (toy / "reach" / "meta" / "info.json").write_text("{ not json")
    return ()


def other_settings(toy):
    (toy / "run").mkdir()
    (toy / "run" / "run.yaml").write_text("config: {seed: 7}\ntasks: []\n")
    return ()


def output_is_a_file(toy):
    (toy / "file").write_text("")
    return (f"--output={toy}/file",)


def wrong_names(toy):
    return info(lambda i: i["features"]["action"].update(names=["a", "b"]))(toy)


def other_cameras(toy):
    info(lambda i: i["features"].pop("observation.images.front"), "lift")(toy)
    return ("--method=joint",)


ONE = stream_text(("reach",))
CASES = {
    "no stream": (flags("--stream="), "--stream must be given"),
    "unknown flag": (flags("--learning_rate=1"), "learning_rate"),
    "unknown method": (flags("--method=err"), "Did you mean 'er'"),
    "no steps": (flags("--steps=0"), "--steps must be at least 1, got 0"),
    "steps are a word": (flags("--steps=many"), "many"),
    "negative batch": (flags("--batch_size=-4"), "--batch_size must be at least 1"),
    "negative seed": (flags("--seed=-1"), "--seed must be at least 0"),
    "ratio too large": (flags("--replay.ratio=1.5"), "--replay.ratio must be above 0 and at most 1"),
    "always replay": (flags("--replay.frequency=1"), "--replay.frequency must be at least 0 and below 1"),
    "unknown share": (flags("--replay.share=fair"), "equal, group, frames"),
    "group without weight": (
        flags("--replay.share=group", "--replay.weights={bimanual: 1}"),
        "No replay weight for group 'single'",
    ),
    "unknown selection": (flags("--replay.selection=best"), "random"),
    "unknown strategy": (flags("--norm.strategy=frozen"), "frozen-first"),
    "floor too large": (flags("--norm.floor=2"), "--norm.floor must be between 0 and 1"),
    "negative rate": (flags("--optim.lr=-1"), "--optim.lr must be above 0"),
    "batch cannot be cut": (flags("--optim.accumulate=3"), "a divisor of the batch size 8"),
    "unknown precision": (flags("--optim.precision=fp8"), "auto, fp32, bf16"),
    "unknown idle rule": (flags("--idle=rest"), "hold, mask"),
    "shift too large": (flags("--augment.shift=1"), "--augment.shift"),
    "json without dry run": (flags("--json"), "--dry-run"),
    "no such device": (flags("--device=tpu9"), "auto, cpu, cuda"),
    "no GPU here": (flags("--device=cuda:99"), "cuda:99"),
    "no steps of a task": (flags("--task_steps={reach: 0}"), "--task_steps must be at least 1 for every task"),
    "steps of an unknown task": (flags("--task_steps={reech: 9}"), "Did you mean 'reach'"),
    "unknown task": (flags("--tasks=[reech]"), "Did you mean 'reach'"),
    "unknown policy": (flags("--policy.type=nanoo"), "Did you mean 'nano'"),
    "unknown policy option": (flags("--policy.depth=9"), "depth"),
    "policy value of wrong type": (flags("--policy.width=wide"), "wide"),
    "policy that cannot be": (flags("--policy.heads=3"), "heads"),
    "no policy at path": (flags("--policy.path=./nowhere"), "nowhere"),
    "idle mask for a foreign loss": (
        flags("--policy.type=act", "--policy.pretrained_backbone_weights=null", "--idle=mask"),
        "--idle=hold",
    ),
    "no stream file": (flags("--stream=nowhere.toml"), "nowhere.toml"),
    "unknown catalog stream": (flags("--stream=singel_arm"), "single_arm"),
    "broken TOML": (stream("name = [\n"), "stream.toml"),
    "unknown key": (stream(ONE + 'datset = "x"\n'), "datset"),
    "no task": (stream('name = "toy"\n'), "no task"),
    "two tasks of one name": (stream(stream_text(("reach", "lift")).replace('"lift"', '"reach"')), "'reach' twice"),
    "unknown arm": (stream(ONE.replace("['left']", "['third']")), "left, right"),
    "unknown embodiment": (stream(stream_text(("reach",), "piper")), "piper_x_pair"),
    "calibrated without embodiment": (
        lambda toy: stream(stream_text(("reach",), ""))(toy) or ("--norm.strategy=calibrated",),
        'embodiment = "piper_x_pair"',
    ),
    "no dataset folder": (stream(ONE.replace('"reach"\n', '"gone"\n', 2)), "gone"),
    "no later dataset folder": (lambda toy: shutil.rmtree(toy / "sweep") or (), "sweep"),
    "not a dataset": (lambda toy: shutil.rmtree(toy / "reach" / "meta") or (), "not a LeRobot dataset"),
    "garbage header": (garbage_header, "not valid JSON"),
    "old version": (info(lambda i: i.update(codebase_version="v2.1")), "holdfast import dataset"),
    "empty dataset": (info(lambda i: i.update(total_episodes=0)), "no episode"),
    "no action": (info(lambda i: i["features"].pop("action")), "no feature 'action'"),
    "no camera": (
        info(lambda i: [i["features"].pop(f"observation.images.{c}") for c in ("head", "front")]),
        "no camera",
    ),
    "no frame rate": (info(lambda i: i.update(fps=0)), "frames per second"),
    "wrong names": (wrong_names, "names 2 action dimensions"),
    "missing camera": (no_video, "observation.images.head"),
    "cameras differ": (other_cameras, "cameras"),
    "truncated table": (truncated, "truncated or damaged"),
    "NaN action": (table(with_nan), "NaN"),
    "fewer frames than episodes say": (table(lambda t: t.slice(0, 50)), "inconsistent"),
    "other settings": (other_settings, "started with other settings"),
    "output is a file": (output_is_a_file, "cannot be written"),
}


@pytest.mark.parametrize(("spoil", "expected"), CASES.values(), ids=CASES)
def test_one_clear_error_before_training(toy, capsys, spoil, expected):
    run = toy / "run"
    base = ["train", f"--stream={toy}/stream.toml", f"--output={run}", "--steps=4", "--batch_size=8", "--device=cpu"]
    more = list(spoil(toy))
    tiny = [] if any(flag.startswith("--policy.type=act") for flag in more) else TINY
    code = main([*base, *tiny, *more])
    err = capsys.readouterr().err
    assert code == 2
    assert expected in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    assert not list(run.rglob("*.safetensors"))


def test_there_are_at_least_thirty_kinds():
    assert len(CASES) >= 30
