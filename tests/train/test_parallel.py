"""Two ranks do what one does: same samples, same losses, same average; their checkpoints fit any number of ranks.

Ranks are forked from a server that has imported everything, with the variables torchrun would set; one test has them
started, and started again, by torchrun's own agent.
"""

import json
import os
import random
import shutil
import signal
import socket
import sys
from contextlib import contextmanager, suppress

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed import launcher
from toys import TINY, never_wait_for_the_disk, stream_text

from holdfast.cli import main
from holdfast.commands import train
from holdfast.core import checked_folder
from holdfast.core.processes import FORKED
from holdfast.runs.checkpoint import Checkpoint
from holdfast.runs.folder import RunFolder
from holdfast.train import engine
from holdfast.train.step import Stepper

pytestmark = pytest.mark.slow  # all of it together


def _rank(number, port, folder, arguments, stop):
    """Be one of two ranks."""
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    _speak_into(folder / f"rank-{number}.txt")
    torch.set_num_threads(1)  # as torchrun would have it
    never_wait_for_the_disk()
    train._FIRST_SPEAKS = 0.0  # nobody here ends all ranks when one ends
    with stopping(stop):
        code = main(arguments)
    sys.stdout.flush()
    os._exit(code)  # as tests judge the work, not how torch tears down


def _speak_into(file):
    said = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)


def forked(target, *arguments):
    """Start a process from the server that has imported everything."""
    process = FORKED.Process(target=target, args=arguments)
    process.start()
    return process


@contextmanager
def stopping(step):
    """Stop a run after it has saved a step, as if somebody had pressed ctrl-C."""
    save = engine.save_progress

    def save_and_stop(folder, state, keep, ranks):
        save(folder, state, keep, ranks)
        if state.step == step:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "save_progress", save_and_stop)
        yield


def arguments(toy, name, *more):
    base = ["train", f"--stream={toy}/stream.toml", f"--output={toy}/{name}", "--steps=20", "--batch_size=8"]
    return [*base, *TINY, "--device=cpu", "--checkpoint.every=6", "--log.every=1", *more]


def alone(toy, name, *more, stop=0):
    with stopping(stop):
        assert main(arguments(toy, name, *more)) == (130 if stop else 0)
    return toy / name


def free_port():
    """A port that no other process is given by chance before the ranks take it: those lie above 32,768."""
    for port in random.sample(range(20_000, 30_000), 100):
        with suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


def in_two(toy, name, *more, code=0, stop=0):
    """Run a command on two ranks; returns the run's folder and what each rank said."""
    port = free_port()
    command = arguments(toy, name, *more)
    ranks = [forked(_rank, number, port, toy, command, stop) for number in range(2)]
    for rank in ranks:
        rank.join()
    said = [(toy / f"rank-{number}.txt").read_text() for number in range(2)]
    assert [rank.exitcode for rank in ranks] == [130 if stop else code] * 2, said
    return toy / name, said


@pytest.fixture(scope="module")
def toy(recorded, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    shutil.copytree(recorded, folder, dirs_exist_ok=True)
    (folder / "stream.toml").write_text(stream_text(("reach", "lift")))
    return folder


@pytest.fixture(scope="module")
def one(toy):
    return alone(toy, "one")


@pytest.fixture(scope="module")
def ddp(toy):
    return in_two(toy, "ddp")


@pytest.fixture(scope="module")
def fsdp(toy):
    return in_two(toy, "fsdp", "--parallel=fsdp")


@pytest.fixture(scope="module")
def sharded(toy):
    """A run on two ranks that share the weights, stopped at step 12 of its only stage."""
    return in_two(toy, "sharded", "--parallel=fsdp", "--tasks=[reach]", stop=12)[0]


def lines(run, stage):
    return [json.loads(line) for line in (run / "stages" / stage / "metrics.jsonl").read_text().splitlines()]


def weights(run, stage):
    return load_file(run / "stages" / stage / "checkpoint" / "policy" / "model.safetensors")


def assert_close(run, other, stages, limit=1e-5):
    """Same steps, samples and losses, and nearly the same averaged weights."""
    for stage in stages:
        ours, theirs = lines(run, stage), lines(other, stage)
        for key in ("step", "samples", "replay_steps", "replay_samples"):
            assert [line[key] for line in ours] == [line[key] for line in theirs]
        for line, wanted in zip(ours, theirs, strict=True):
            assert line["loss"] == pytest.approx(wanted["loss"], abs=limit)
            assert line["loss_by_dimension"] == pytest.approx(wanted["loss_by_dimension"], abs=10 * limit)
            assert line["grad_norm"] == pytest.approx(wanted["grad_norm"], rel=1e-4)
        found, expected = weights(run, stage), weights(other, stage)
        assert found.keys() == expected.keys()
        for name, value in expected.items():  # AdamW turns rounding in a gradient near zero into steps of its own
            torch.testing.assert_close(found[name], value, atol=2e-4, rtol=0, msg=name)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_ranks_train_as_one_does(one, parallel, request):
    run, said = request.getfixturevalue(parallel)
    assert_close(run, one, ["01-reach", "02-lift"])
    assert len(lines(run, "01-reach")) == 20
    assert f"4 samples on each of 2 ranks ({parallel})" in " ".join(said[0].split())
    assert "Finished" in said[0]
    assert "stage" not in said[1]
    assert "Finished" not in said[1]


def test_one_rank_writes_for_all(one, ddp):
    def written(run):
        return [(e["stage"], e["event"]) for e in map(json.loads, (run / "audit.jsonl").read_text().splitlines())]

    def settings(run, parts):
        return (run / "run.yaml").read_text().replace(f"accumulate: {parts}", "accumulate: n")

    assert written(ddp[0]) == written(one)
    assert settings(ddp[0], 2) == settings(one, 1)


def newest(run):
    return sorted((run / "stages" / "01-reach" / "progress").glob("step-*"))[-1]


def copied(run, name):
    return shutil.copytree(run, run.with_name(name))


def test_sharded_progress_is_written_by_all_ranks_and_verified(sharded):
    folder = newest(copied(sharded, "flipped"))
    manifest = json.loads((folder / checked_folder.MANIFEST).read_text())
    assert set(manifest) == {"__0_0.distcp", "__1_0.distcp", ".metadata", "state.json"}
    assert checked_folder.verify(folder) is None
    shard = bytearray((folder / "__1_0.distcp").read_bytes())
    shard[len(shard) // 2] ^= 1
    (folder / "__1_0.distcp").write_bytes(shard)
    assert "__1_0.distcp" in checked_folder.verify(folder)


def test_two_ranks_that_share_the_weights_go_on_where_they_stopped(toy, sharded, one):
    run = copied(sharded, "sharded-on-two")
    _, said = in_two(toy, run.name, "--parallel=fsdp", "--tasks=[reach]")
    assert "Resuming at step 12 of 20" in said[0]
    assert_close(run, one, ["01-reach"])


def test_what_two_ranks_sharded_one_rank_goes_on_with(toy, sharded, one, capsys):
    run = copied(sharded, "sharded-on-one")
    alone(toy, run.name, "--tasks=[reach]")
    assert "Resuming at step 12 of 20" in capsys.readouterr().out
    assert_close(run, one, ["01-reach"])
    assert (newest(run) / "training.safetensors").exists()


def test_what_one_rank_saved_two_ranks_go_on_with(toy, one):
    run = alone(toy, "whole", "--tasks=[reach]", "--optim.accumulate=2", stop=18)
    _, said = in_two(toy, run.name, "--parallel=fsdp", "--tasks=[reach]")
    assert "Resuming at step 18 of 20" in said[0]
    assert_close(run, one, ["01-reach"])


def _torchrun(folder, arguments):
    """What `torchrun --standalone --nproc-per-node=2 --max-restarts=2` does, but without waiting for imports."""
    _speak_into(folder / "torchrun.txt")
    asked = {"min_nodes": 1, "max_nodes": 1, "nproc_per_node": 2, "max_restarts": 2, "monitor_interval": 0.1}
    there = {"run_id": "test", "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "start_method": "fork"}
    launcher.elastic_launch(launcher.LaunchConfig(**asked, **there), _dying_rank)(arguments)
    os._exit(0)


def _dying_rank(arguments):
    """Train, but rank 1 of the first attempt kills itself before step 14 of the second stage."""
    torch.set_num_threads(1)
    never_wait_for_the_disk()
    take = Stepper.__call__

    def take_or_die(self, state, batch):
        if (self._stage, state.step) == (2, 14):
            os.kill(os.getpid(), signal.SIGKILL)
        return take(self, state, batch)

    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        Stepper.__call__ = take_or_die
    assert main(arguments) == 0


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_rank_killed_in_a_step_is_started_again_and_ends_as_if_undisturbed(toy, parallel, request):
    undisturbed, _ = request.getfixturevalue(parallel)
    run = forked(_torchrun, toy, arguments(toy, f"killed-{parallel}", f"--parallel={parallel}"))
    run.join()
    said = (toy / "torchrun.txt").read_text()
    assert run.exitcode == 0, said
    assert "Resuming at step 12 of 25" in said
    for stage in ("01-reach", "02-lift"):
        found, wanted = (weights(folder, stage) for folder in (toy / f"killed-{parallel}", undisturbed))
        assert lines(toy / f"killed-{parallel}", stage) == lines(undisturbed, stage)
        assert all(torch.equal(value, wanted[name]) for name, value in found.items())


# Flags of methods whose steps or weights are not those of er, and the first line of metrics with an extra loss.
METHODS = {
    "ewc": (("--method.samples=4", "--method.strength=1e5"), 1),
    "l2": (("--method.strength=1",), 1),
    "lwf": ((), 1),
    "derpp": (("--replay.mix=row", "--replay.frequency=0.4"), 1),
    "agem": (("--replay.frequency=0.3",), None),
    "merge": (("--method.parts=2",), None),
    "joint-cumulative": ((), None),
    "adapters": (("--method.rank=2",), None),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_trains_on_two_ranks_as_on_one(toy, method):
    """What it adds to the loss is added once."""
    options, added = METHODS[method]
    flags = (f"--method={method}", *options, "--steps=8", "--optim.lr=1e-4")
    run, _ = in_two(toy, f"{method}-ddp", *flags)
    assert_close(run, alone(toy, f"{method}-one", *flags), ["01-reach", "02-lift"], limit=1e-4)
    if added is not None:
        assert all(line["extra_loss"] > 0 for line in lines(run, "02-lift")[added:])


@pytest.mark.parametrize("flag", ["--method=ewc", "--replay.selection=hard"])
def test_what_needs_the_whole_policy_is_refused_before_its_weights_are_split(toy, flag):
    _, said = in_two(toy, "never", "--parallel=fsdp", flag, code=2)
    assert f"{flag} needs the whole policy on one rank" in " ".join(said[0].split())
    assert not (toy / "never").exists()


def test_rows_of_a_batch_are_replayed_alike_on_two_ranks(toy):
    rows = ("--replay.mix=row", "--replay.frequency=0.3")
    run, _ = in_two(toy, "rows-ddp", *rows)
    assert_close(run, alone(toy, "rows-one", *rows), ["01-reach", "02-lift"])
    found = lines(run, "02-lift")
    assert len(found) == 28
    assert {line["replay_samples"] for line in found} == {2, 3}
    assert sum(line["replay_samples"] for line in found) == sum(line["samples"]["reach"] for line in found) == 67
    assert all(line["replay_samples"] == line["samples"]["reach"] for line in found)


def test_a_memory_that_follows_losses_does_so_alike_on_two_ranks(toy):
    (toy / "three.toml").write_text(stream_text())
    memory = ("--replay.share=need", "--replay.alarm=0.1", "--replay.watch_every=3", "--replay.selection=surprise")
    more = (f"--stream={toy}/three.toml", "--steps=6", "--replay.frequency=0.6", "--replay.ratio=1")
    run, _ = in_two(toy, "memory-ddp", *memory, *more)
    other = alone(toy, "memory-one", *memory, *more)
    assert_close(run, other, ["01-reach", "02-lift", "03-sweep"], limit=1e-4)
    assert any(line["replay_steps"] for line in lines(run, "03-sweep"))
    for ours, theirs in zip(lines(run, "03-sweep"), lines(other, "03-sweep"), strict=True):
        assert ours["watched_loss"] == pytest.approx(theirs["watched_loss"], abs=1e-4)
    kept = [Checkpoint(folder / "stages" / "03-sweep" / "checkpoint").buffer.tasks for folder in (run, other)]
    assert [k.episodes for k in kept[0]] == [k.episodes for k in kept[1]]


def test_an_error_of_the_first_rank_ends_all_with_one_message(toy):
    with RunFolder(toy / "taken", print).locked():
        _, said = in_two(toy, "taken", code=2)
    assert said[0].count("Another process is training in") == 1
    assert "holdfast:" not in said[1]
    assert "Traceback" not in said[0] + said[1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--batch_size=7"], "--batch_size=7, the batch of all ranks together, cannot be split equally over 2 ranks"),
        (["--optim.accumulate=1"], "2 ranks cannot share 1 micro-batches equally. Use 1 ranks, or"),
        (["--batch_size=12", "--optim.accumulate=3"], "2 ranks cannot share 3 micro-batches"),
        (["--device=cuda"], "no CUDA"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="one of the messages is about not having a GPU")
def test_what_cannot_be_shared_is_refused_before_any_work(toy, monkeypatch, capsys, more, message):
    names = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x"}
    waited: list[float] = []
    monkeypatch.setattr(train.time, "sleep", waited.append)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert main(arguments(toy, "never", *more)) == 2
    assert message in capsys.readouterr().err
    assert not waited
    assert not (toy / "never").exists()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert main(arguments(toy, "never", *more)) == 2
    assert not capsys.readouterr().err
    assert waited == [train._FIRST_SPEAKS]
