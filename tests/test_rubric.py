import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import catalog, rubric
from holdfast.core.errors import HoldfastError
from holdfast.core.records import Task, Trial

COLA = ("right_can_grasped", "right_can_placed", "left_can_grasped", "left_can_placed")
STACK = ("reached", "lifted", "above", "stacked")
BREAD = ("bread_lifted", "pot_lifted", "bread_above", "pot_beneath", "bread_in_pot", "pot_on_towel")


@pytest.mark.parametrize("name", catalog.tasks())
def test_all_milestones_give_100_and_none_gives_0(name):
    task = catalog.task(name)
    names = [m.name for m in task.milestones]
    assert rubric.score(task, names) == 100
    assert rubric.score(task, []) == 0


@pytest.mark.parametrize("name", catalog.tasks())
def test_full_score_demands_the_final_condition(name):
    task = catalog.task(name)
    names = [m.name for m in task.milestones]
    assert rubric.score(task, names, final=False) == pytest.approx(100 * (len(names) - 1) / len(names))
    assert rubric.awarded(task, names, final=False) == tuple(names[:-1])


@pytest.mark.parametrize(
    ("task", "milestones", "penalties", "final", "expected"),
    [
        pytest.param("stack_bowls", STACK[:2], {}, True, 50, id="partial credit"),
        pytest.param("stack_bowls", STACK[:2], {}, False, 50, id="final takes nothing from a partial trial"),
        pytest.param("stack_bowls", STACK, {"green_bowl_knocked": 1}, True, 87.5, id="penalty"),
        pytest.param("stack_bowls", STACK, {"green_bowl_knocked": 3}, True, 87.5, id="penalty given at most once"),
        pytest.param("stack_bowls", STACK, {"green_bowl_knocked": 0}, True, 100, id="penalty not given"),
        pytest.param("stack_bowls", (), {"green_bowl_knocked": 1}, True, 0, id="not below 0"),
        pytest.param("stack_bowls", STACK[:1], {"green_bowl_knocked": 1}, True, 12.5, id="penalty before dividing"),
        pytest.param("stack_bowls", ("reached", "above", "stacked"), {}, True, 25, id="a broken chain stops counting"),
        pytest.param("stack_bowls", ("stacked",), {}, True, 0, id="nothing without what it needs"),
        pytest.param("place_cola", COLA, {"can_knocked": 2}, True, 75, id="penalty for each can"),
        pytest.param("place_cola", COLA, {"can_knocked": 5}, True, 75, id="there are only two cans"),
        pytest.param("place_cola", COLA, {"can_knocked": 2, "box_deformed": 1}, True, 62.5, id="penalties add up"),
        pytest.param("place_cola", COLA[2:], {}, True, 50, id="the left arm counts without the right"),
        pytest.param("place_cola", ("right_can_placed", *COLA[2:]), {}, True, 50, id="placing needs grasping"),
        pytest.param("place_fruits", (), {"persimmon_first": 1, "right_arm_early": 1}, True, 0, id="floor"),
        pytest.param("cook_bread", BREAD[:3], {}, True, 50, id="two arms, half way"),
        pytest.param("cook_bread", [b for b in BREAD if b != "bread_lifted"], {}, True, 100 / 6, id="deep needs"),
        pytest.param("press_button", ("near", "pressed"), {}, True, 200 / 3, id="pressed at a poor angle"),
        pytest.param("fold_tshirt", ("sides_grasped", "halved", "quartered"), {}, True, 60, id="sleeves forgotten"),
        pytest.param("place_fruits", [], {}, False, 0, id="nothing reached"),
    ],
)
def test_score(task, milestones, penalties, final, expected):
    assert rubric.score(catalog.task(task), milestones, penalties, final) == pytest.approx(expected)


def test_an_operator_may_give_a_milestone_without_the_one_before():
    task = catalog.task("stack_bowls")
    given = ("reached", "above", "stacked")
    assert rubric.awarded(task, given, by_operator=True) == given
    assert rubric.awarded(task, given, final=False, by_operator=True) == given[:2]
    assert rubric.score(task, given, {"green_bowl_knocked": 1}, by_operator=True) == pytest.approx(62.5)
    judges = {"operator": 75, "twin": 25, "": 25}
    assert {judge: rubric.score_trial(task, Trial(task.name, 1, given, source=judge)) for judge in judges} == judges


def test_order_and_repetition_of_milestones_do_not_matter():
    task = catalog.task("stack_bowls")
    assert rubric.score(task, (name for name in (*reversed(STACK[:3]), "reached"))) == 75
    assert rubric.awarded(task, reversed(STACK[:3])) == STACK[:3]


def test_score_trial_uses_all_of_the_trial():
    task = catalog.task("place_cola")
    trial = Trial("place_cola", 1, COLA, {"can_knocked": 1}, final=False)
    assert rubric.score_trial(task, trial) == pytest.approx(100 * 2.5 / 4)


@pytest.mark.parametrize(
    ("milestones", "penalties", "says"),
    [
        (["lift"], {}, r"milestone 'lift' of task 'stack_bowls'.*'lifted'.*reached, lifted, above, stacked"),
        ([], {"knocked": 1}, "penalty 'knocked' of task 'stack_bowls'.*green_bowl_knocked"),
        ([], {"green_bowl_knocked": -1}, "-1 times"),
        ([], {"green_bowl_knocked": 0.5}, "0.5 times"),
    ],
)
def test_wrong_names_and_counts_are_refused(milestones, penalties, says):
    with pytest.raises(HoldfastError, match=says):
        rubric.score(catalog.task("stack_bowls"), milestones, penalties)


def test_task_without_milestones_cannot_be_scored():
    with pytest.raises(HoldfastError, match="'wipe' has no milestones"):
        rubric.score(Task("wipe", "Wipe.", ("left",)), [])


def test_trial_of_another_task_is_refused():
    with pytest.raises(HoldfastError, match="'hang_cup'"):
        rubric.score_trial(catalog.task("stack_bowls"), Trial("hang_cup", 1, ()))


@st.composite
def trials(draw):
    task = draw(st.sampled_from(list(catalog.tasks().values())))
    milestones = draw(st.sets(st.sampled_from([m.name for m in task.milestones])))
    penalties = {p.name: draw(st.integers(0, 4)) for p in task.penalties}
    return task, milestones, penalties, draw(st.booleans())


@given(trials(), st.booleans())
def test_score_lies_in_0_to_100(trial, by_operator):
    assert 0 <= rubric.score(*trial, by_operator=by_operator) <= 100


@given(trials(), st.booleans())
def test_one_more_milestone_never_lowers_the_score(trial, by_operator):
    task, milestones, penalties, final = trial
    before = rubric.score(task, milestones, penalties, final, by_operator=by_operator)
    for milestone in task.milestones:
        more = {*milestones, milestone.name}
        assert rubric.score(task, more, penalties, final, by_operator=by_operator) >= before


@given(trials())
def test_one_more_penalty_never_raises_the_score(trial):
    task, milestones, penalties, final = trial
    before = rubric.score(task, milestones, penalties, final)
    for name, count in penalties.items():
        assert rubric.score(task, milestones, {**penalties, name: count + 1}, final) <= before
