"""Continual World, ALOHA and LIBERO as streams, and tasks that come back."""

import pytest

from holdfast import catalog, embodiments
from holdfast.core.errors import HoldfastError

CW10 = (
    "hammer", "push-wall", "faucet-close", "push-back", "stick-pull", "handle-press-side", "push", "shelf-place",
    "window-close", "peg-unplug-side",
)  # fmt: skip
LIBERO = ("libero_spatial", "libero_object", "libero_goal", "libero_10")


def test_cw20_is_cw10_twice():
    ten, twenty = (catalog.load_stream(name, "data") for name in ("cw10", "cw20"))
    assert ten.names == tuple(f"{name}-v3" for name in CW10)
    assert twenty.names == ten.names * 2
    assert twenty.tasks[:10] == twenty.tasks[10:] == twenty.distinct == ten.tasks
    assert ten.embodiment == "metaworld"


@pytest.mark.parametrize("name", ["cw10", *LIBERO])
def test_every_task_is_scored_by_success_alone_and_fits_its_robot(name, tmp_path):
    stream = catalog.load_stream(name, str(tmp_path))
    robot = embodiments.load(stream.embodiment)
    assert len(stream.names) == len(set(stream.names)) == 10
    for entry in stream.tasks:
        assert (entry.task.milestones, bool(entry.task.final)) == ((), True)
        assert robot.active(entry.task.arms).all()
        assert entry.dataset == str(tmp_path / entry.task.name)


def test_aloha_moves_both_arms_and_is_scored_by_the_stages_of_its_reward():
    stream = catalog.load_stream("aloha", "data")
    robot = embodiments.load(stream.embodiment)
    assert stream.names == ("transfer_cube", "insert_peg")
    assert (len(robot.names), robot.arms) == (14, ("left", "right"))
    for entry in stream.tasks:
        assert robot.active(entry.task.arms).all()
        assert [milestone.name for milestone in entry.task.milestones][:3] == ["touched", "lifted", "met"]
        assert len(entry.task.milestones) == 4


def test_libero_has_its_words_and_its_orders():
    usual = catalog.load_stream("libero_10", "data")
    assert usual.tasks[8].task.name == "KITCHEN_SCENE8_put_both_moka_pots_on_the_stove"
    assert usual.tasks[8].task.instruction == "put both moka pots on the stove"
    third = catalog.load_stream("libero_10:3", "data")
    assert third.name == "libero_10-3"
    assert third.names == tuple(usual.names[i] for i in (7, 4, 3, 0, 8, 1, 2, 5, 9, 6))
    assert catalog.load_stream("libero_10:0", "data").names == usual.names
    for name in LIBERO:
        known = sorted(catalog.load_stream(name, "data").names)
        orders = [catalog.load_stream(f"{name}:{order}", "data").names for order in range(21)]
        assert len(set(orders)) == 21
        assert all(sorted(order) == known for order in orders)


@pytest.mark.parametrize(
    ("name", "says"),
    [("libero_goal:21", "order '21' of libero_goal"), ("libero_goal:", "order '' of"), ("cw10:1", "stream 'cw10:1'")],
)
def test_an_order_that_is_not_there_is_named(name, says):
    with pytest.raises(HoldfastError, match=f"(?i)unknown {says}"):
        catalog.load_stream(name, "data")


STREAM = """
name = "again"
[[task]]
name = "wipe"
instruction = "Wipe."
dataset = "one"
[[task]]
name = "dust"
instruction = "Dust."
dataset = "two"
[[task]]
name = "wipe"
"""


def test_a_users_task_comes_back_by_its_name(tmp_path):
    (tmp_path / "again.toml").write_text(STREAM)
    stream = catalog.load_stream(str(tmp_path / "again.toml"))
    assert stream.names == ("wipe", "dust", "wipe")
    assert stream.tasks[2] == stream.tasks[0]
    assert stream.only(["dust", "wipe", "dust"]).names == ("dust", "wipe", "dust")


@pytest.mark.parametrize("change", ['dataset = "two"', "fps = 5", 'instruction = "Rub."\ndataset = "one"'])
def test_a_task_that_comes_back_changed_is_refused(tmp_path, change):
    (tmp_path / "again.toml").write_text(STREAM + change)
    with pytest.raises(HoldfastError, match="wipe"):
        catalog.load_stream(str(tmp_path / "again.toml"))
