"""joint-cumulative: its stages, that each begins at the base, and what it keeps of the stages before."""

import json

import pytest
from method_runs import arguments, same, train
from toys import stream_of

from holdfast.cli import main
from holdfast.core.json_records import read_content
from holdfast.methods.er import ExperienceReplay
from holdfast.methods.joint import Joint
from holdfast.methods.joint_cumulative import JointCumulative
from holdfast.train import engine


def test_its_last_stage_has_the_steps_of_joint_and_tasks_have_equal_shares():
    stream, steps = stream_of("a", "b", "c"), [100, 40, 60]
    found = JointCumulative().stages(stream, steps, 0.2)
    assert [stage.steps for stage in found] == [100, 150, 225]
    assert found[-1].steps == Joint().stages(stream, steps, 0.2)[0].steps
    assert found[1].steps == sum(stage.steps for stage in ExperienceReplay().stages(stream, steps, 0.2)[:2])
    assert [stage.learns for stage in found] == [(0,), (1,), (2,)]
    assert [stage.start for stage in found] == ["base"] * 3
    assert [1 - stage.frequency for stage in found] == pytest.approx([1, 1 / 2, 1 / 3])


def test_every_stage_starts_at_the_base_with_the_buffer_and_the_spaces_of_the_stage_before(toy, monkeypatch):
    started, take = [], engine.take_steps

    def noted(setting, stage, ready):
        started.append({name: weight.detach().clone() for name, weight in ready.adapter.policy.named_parameters()})
        take(setting, stage, ready)

    monkeypatch.setattr(engine, "take_steps", noted)
    flags = ("--method=joint-cumulative", "--tasks=[reach, lift, sweep]", "--batch_size=6", "--log.every=1")
    run = train(toy, "run", *flags, "--steps=2")
    er = train(toy, "er", *flags[1:], "--method=er", "--steps=2")
    lines = (run / "stages" / "03-sweep" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["samples"] for line in lines] == [{"reach": 2, "lift": 2, "sweep": 2}] * 6
    for stage in ("01-reach", "02-lift", "03-sweep"):
        ours, theirs = (folder / "stages" / stage / "checkpoint" for folder in (run, er))
        for file in ("buffer.json", "normalization.json", "schema.json"):
            assert read_content(ours / file) == read_content(theirs / file)

    assert [same(start, started[0]) for start in started] == [True, True, True, True, False, False]  # er goes on


def test_its_data_are_needed_as_er_needs_them(toy, capsys):
    assert main([*arguments(toy, "run"), "--method=joint-cumulative", "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [stage["replay_share"] for stage in plan["stages"]] == [{}, {"reach": 1.0}]
    assert [stage["replay_samples"] for stage in plan["stages"]] == [0, plan["stages"][1]["steps"] * 4 // 2]
