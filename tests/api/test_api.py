"""The Python API on an arena without a simulator: record, train, evaluate, look, act."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import holdfast
from holdfast import Observation, PolicyChoice, TrainConfig
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Trial
from holdfast.runs.trials import Trials

sys.path.append(str(Path(__file__).parents[1] / "arenas"))
from fake_arena import STREAM, FakeArena

QUIET = Console(quiet=True)
SMALL = {"image_size": 32, "width": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "chunk_size": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Recorded, trained and evaluated by the API alone; `finetune` is the baseline."""
    folder = tmp_path_factory.mktemp("api")
    data = holdfast.record(
        ["touch", "mirror"], folder / "data", episodes=3, size=32, arena=FakeArena, processes=1, console=QUIET
    )
    assert data == {"touch": folder / "data" / "touch", "mirror": folder / "data" / "mirror"}
    (folder / "stream.toml").write_text(STREAM)
    configs = [settings(folder, method=method, output=str(folder / method)) for method in ("er", "finetune")]
    runs = [holdfast.train(config, console=QUIET) for config in configs]
    holdfast.evaluate(*runs, arena=FakeArena, trials=2, device="cpu", processes=1, console=QUIET)
    return folder


def settings(folder, **more):
    policy = PolicyChoice(options={name: str(value) for name, value in (SMALL | {"n_action_steps": 4}).items()})
    return TrainConfig(
        stream=str(folder / "stream.toml"), policy=policy, steps=2, batch_size=4, device="cpu", **more
    )  # fmt: skip


def test_importing_holdfast_is_light_and_the_functions_stay():
    code = """
import sys
import holdfast
assert not {"torch", "lerobot", "numpy", "rich", "pandas"} & set(sys.modules), sorted(sys.modules)
assert set(holdfast.__all__) <= set(dir(holdfast))
for name in holdfast.__all__:
    getattr(holdfast, name)
import holdfast.train.config, holdfast.evaluate.cells
from holdfast.train import plan
from holdfast import arenas
assert callable(holdfast.train) and callable(holdfast.evaluate) and plan.__name__ == "holdfast.train.plan"
assert not {"torch", "lerobot", "pandas"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = holdfast.trian


@pytest.mark.slow
class TestARun:
    def test_its_tables_are_those_of_the_commands(self, folder, capsys):
        run = holdfast.load(folder / "er", baseline=folder / "finetune")
        assert (run.method, run.tasks, len(run.stages)) == ("er", ("touch", "mirror"), 2)
        assert "er on touch, mirror; 2 of 2 stages" in repr(run)
        assert run.settings["steps"] == 2

        trials = run.trials
        assert len(trials) == 6
        assert list(trials.columns[:4]) == ["task", "stage", "seed", "score"]
        assert set(trials["source"]) == {"fake"}
        assert trials["when"].min().year >= 2026

        matrix = run.matrix
        assert matrix.shape == (2, 2)
        assert np.isnan(matrix.loc[1, "mirror"])
        means = trials.groupby(["stage", "task"])["score"].mean()
        assert all(matrix.loc[stage, task] == mean for (stage, task), mean in means.items())

        metrics = run.metrics
        last = matrix.loc[2]
        assert metrics.loc[2, "as"] == pytest.approx(last.mean())
        assert metrics.loc[2, "bwt"] == pytest.approx(last["touch"] - matrix.loc[1, "touch"])
        alone = holdfast.load(folder / "finetune").matrix
        assert list(alone.index) == ["each alone"]
        assert metrics.loc[2, "fwt"] == pytest.approx(last["mirror"] - alone.loc["each alone", "mirror"])
        assert np.isnan(holdfast.load(folder / "er").metrics.loc[2, "fwt"])

        both = ["--baseline", str(folder / "finetune"), "--arena=fake_arena:FakeArena", "--trials=2", "--device=cpu"]
        capsys.readouterr()
        assert main(["evaluate", str(folder / "er"), *both]) == 0
        said = capsys.readouterr().out
        assert "0 trials to run" in said
        assert all(f"{value:.1f}" in said for value in (*last, metrics.loc[2, "as"], abs(metrics.loc[2, "fwt"])))

    def test_sources_are_never_mixed(self, folder, tmp_path):
        path = shutil.copytree(folder / "er", tmp_path / "run")
        with Trials(path / "trials.sqlite") as file:
            file.add(Trial("touch", 2, (), source="operator", operator="Ada", score=100.0, when=1.8e9))
        with pytest.raises(HoldfastError, match="2 sources, which are never averaged: fake, operator"):
            _ = holdfast.load(path).matrix
        assert len(holdfast.load(path).trials) == 7
        arena, people = (holdfast.load(path, source=source) for source in ("fake", "operator"))
        assert arena.matrix.equals(holdfast.load(folder / "er").matrix)
        assert people.matrix.loc[2, "touch"] == 100
        assert (len(arena.trials), len(people.trials)) == (6, 1)

    def test_a_run_without_trials_has_empty_tables(self, folder, tmp_path):
        path = shutil.copytree(folder / "er", tmp_path / "run")
        (path / "trials.sqlite").unlink()
        run = holdfast.load(path)
        assert run.trials.empty
        assert "score" in run.trials
        assert run.matrix.isna().all().all()
        assert run.metrics.isna().all().all()
        assert not (path / "trials.sqlite").exists()

    def test_its_policy_acts_as_in_a_trial(self, folder):
        from holdfast.arenas.learned import LearnedPolicy
        from holdfast.arenas.scored_episode import ScoredEpisode
        from holdfast.policies.pilot import Pilot

        run = holdfast.load(folder / "er")
        policy = run.stage(2).policy
        assert policy is run.stage("mirror").policy
        assert (policy.cameras, policy.size, policy.tasks) == (("top",), (32, 32), ("touch", "mirror"))
        assert policy.state == policy.action == ("x", "y")

        episode = ScoredEpisode(FakeArena(), FakeArena.tasks["touch"])
        episode.begin(7, "")
        pilot = Pilot(folder / "er" / "stages" / "02-mirror" / "checkpoint", ("x", "y"), "cpu")
        learned = LearnedPolicy(episode, pilot, seed=7)
        policy.reset(seed=7)
        for _ in range(2):
            seen = episode.observe(policy.size, policy.cameras)
            actions = policy.act(seen, "touch")
            assert actions.shape == (4, 2)
            for action in actions:
                taken = learned.act()
                assert np.array_equal(taken, action)
                episode.step(taken)
        policy.reset()
        assert not np.array_equal(policy.act(seen, "touch"), actions)

    def test_wrong_observations_are_refused(self, folder):
        policy = holdfast.load(folder / "er").stage(1).policy
        image = {"top": np.zeros((32, 32, 3), np.uint8)}
        for state, images, task, message in (
            (np.zeros(3), image, "touch", r"2 finite numbers \(x, y\).*shape \(3,\)"),
            (np.array([0, np.nan]), image, "touch", "2 finite numbers"),
            (np.zeros(2), {}, "touch", "camera 'top' is missing"),
            (np.zeros(2), {"top": np.zeros((64, 64, 3), np.uint8)}, "touch", r"\(32, 32, 3\), got uint8 of shape \(64"),
            (np.zeros(2), {"top": np.zeros((32, 32, 3))}, "touch", "got float64"),
            (np.zeros(2), image, "tuch", "Did you mean 'touch'"),
        ):
            with pytest.raises(HoldfastError, match=message):
                policy.act(Observation(state, images), task)

    def test_weights_that_are_not_those_that_were_trained_are_refused(self, folder, tmp_path):
        shutil.copytree(folder / "er", tmp_path / "er")
        stage = holdfast.load(tmp_path / "er").stage(1)
        file = stage.folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-4000] + bytes(4000))
        with pytest.raises(HoldfastError, match="its weights are not the ones that were written"):
            _ = stage.policy

    def test_what_is_not_there_is_named(self, folder, tmp_path):
        run = holdfast.load(folder / "er")
        with pytest.raises(HoldfastError, match=r"finished stage .*'3'.*1 \(touch\), 2 \(mirror\)"):
            run.stage(3)
        with pytest.raises(HoldfastError, match=r"trained with --method=er.*Give a run of --method=finetune"):
            holdfast.load(folder / "finetune", baseline=folder / "er")
        with pytest.raises(HoldfastError, match="is not a run"):
            holdfast.load(tmp_path)
        with pytest.raises(HoldfastError, match="A run is given twice"):
            holdfast.evaluate(run, folder / "er", arena=FakeArena, device="cpu")

    def test_training_again_changes_nothing(self, folder):
        file = folder / "er" / "stages" / "02-mirror" / "checkpoint" / "policy" / "model.safetensors"
        before = file.stat().st_mtime_ns
        again = holdfast.train(settings(folder, output=str(folder / "er")), console=QUIET)
        assert again.path == folder / "er"
        assert file.stat().st_mtime_ns == before


def test_mistakes_are_found_before_any_work(tmp_path):
    with pytest.raises(HoldfastError, match="With dry_run nothing is trained"):
        holdfast.train(TrainConfig(stream="single_arm", dry_run=True))
    with pytest.raises(HoldfastError, match=r"Dataset .*stack_bowls of task 'stack_bowls' does not exist"):
        holdfast.train(TrainConfig(stream="single_arm", data_root=str(tmp_path), output=str(tmp_path / "run")))
    with pytest.raises(HoldfastError, match="must be a list of names, got the text 'touch'"):
        holdfast.record("touch", tmp_path, episodes=1)
    with pytest.raises(HoldfastError, match="got 97x97"):
        holdfast.record(["stack_bowls"], tmp_path, episodes=1, size=97)
    with pytest.raises(HoldfastError, match=r"Unknown task 'stack_bowl' of the arena 'twin'\. Did you mean"):
        holdfast.record(["stack_bowl"], tmp_path, episodes=1)
    assert not list(tmp_path.iterdir())


def test_an_arena_that_no_other_process_can_import_is_refused(tmp_path):
    class Inner(FakeArena):
        pass

    with pytest.raises(HoldfastError, match=r"cannot import the arena .*Inner.*%%writefile my_arena.py"):
        holdfast.record(["touch"], tmp_path, episodes=1, arena=Inner)
