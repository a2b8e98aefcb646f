import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import catalog
from holdfast.core.errors import HoldfastError

POINTS = {
    "stack_bowls": 4,
    "hang_cup": 4,
    "press_button": 3,
    "fold_towel": 5,
    "push_box": 4,
    "cook_bread": 6,
    "place_cola": 4,
    "place_fruits": 6,
    "fold_tshirt": 5,
    "pack_bag": 6,
}
PENALTIES = {
    "stack_bowls": {"green_bowl_knocked": (0.5, 1)},
    "cook_bread": {"off_centre": (0.5, 1)},
    "place_cola": {"can_knocked": (0.5, 2), "box_deformed": (0.5, 1)},
    "place_fruits": {"right_arm_early": (0.5, 1), "persimmon_first": (1.0, 1)},
    "fold_tshirt": {"sleeve_partial": (0.5, 2), "disordered": (0.5, 1)},
}
ORDERS = {
    "single_arm": ("stack_bowls", "hang_cup", "press_button", "fold_towel", "push_box"),
    "bimanual": ("cook_bread", "place_cola", "place_fruits", "fold_tshirt", "pack_bag"),
    "heterogeneous": (
        "stack_bowls",
        "place_cola",
        "hang_cup",
        "cook_bread",
        "fold_towel",
        "fold_tshirt",
        "push_box",
        "pack_bag",
        "press_button",
        "place_fruits",
    ),
}
KITCHEN = """
name = "kitchen"

[[task]]
name = "stack_bowls"
dataset = "data/stack_bowls"

[[task]]
name = "wipe_table"
instruction = "Wipe the table."
arms = ["left"]
dataset = "me/wipe_table"
final = "No crumbs are left."

[[task.milestone]]
name = "cloth_held"
text = "Cloth is held."

[[task.milestone]]
name = "wiped"
text = "Table is clean."
needs = ["cloth_held"]

[[task.penalty]]
name = "spilled"
text = "A glass tips over."
value = 1
most = 3
"""


def write(folder: Path, text: str) -> str:
    path = folder / "kitchen.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def one_task(*lines: str) -> str:
    return "\n".join(['name = "kitchen"', "[[task]]", *lines])


def test_has_the_ten_tasks_with_the_points_of_their_rubrics():
    assert {name: len(task.milestones) for name, task in catalog.tasks().items()} == POINTS


@pytest.mark.parametrize("name", POINTS)
def test_task_is_complete(name):
    task = catalog.task(name)
    single = name in ORDERS["single_arm"]
    assert task.arms == (("left",) if single else ("left", "right"))
    assert task.demonstrations == (500 if single else 300)
    assert task.group == ("single" if single else "bimanual")
    assert task.instruction.endswith(".")
    assert task.final
    assert all(m.text for m in task.milestones)
    assert {p.name: (p.value, p.most) for p in task.penalties} == PENALTIES.get(name, {})


def test_placing_needs_grasping_and_arms_are_independent():
    needs = {m.name: m.needs for m in catalog.task("place_cola").milestones}
    assert needs["right_can_placed"] == ("right_can_grasped",)
    assert needs["left_can_grasped"] == ()


def test_changing_a_returned_dict_leaves_the_catalog_alone():
    catalog.tasks().clear()
    assert len(catalog.tasks()) == 10


def test_unknown_task_suggests_the_closest():
    with pytest.raises(HoldfastError, match="Did you mean 'hang_cup'"):
        catalog.task("hang_cups")


def test_cameras():
    assert [c.name for c in catalog.cameras()] == ["head", "left_wrist", "right_wrist", "front"]  # the released order
    assert {(c.height, c.width, c.fps) for c in catalog.cameras()} == {(480, 640, 30)}


@pytest.mark.parametrize(("name", "order"), ORDERS.items())
def test_catalog_stream_keeps_the_order_and_finds_datasets_under_data_root(name, order, tmp_path):
    stream = catalog.load_stream(name, str(tmp_path))
    assert stream.names == order
    assert stream.embodiment == "piper_x_pair"
    assert [entry.dataset for entry in stream.tasks] == [str(tmp_path / task) for task in order]


def test_streams_lists_the_catalog():
    assert catalog.streams()[: len(ORDERS)] == tuple(ORDERS)


def test_catalog_stream_without_data_root_asks_for_it():
    with pytest.raises(HoldfastError, match="--data_root"):
        catalog.load_stream("single_arm")


def test_relative_data_root_becomes_absolute_so_it_cannot_pass_for_a_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert catalog.load_stream("single_arm", "data").tasks[0].dataset == str(tmp_path / "data" / "stack_bowls")


def test_user_stream_mixes_catalog_tasks_with_new_ones(tmp_path):
    (tmp_path / "data" / "stack_bowls").mkdir(parents=True)
    stream = catalog.load_stream(write(tmp_path, KITCHEN))
    assert (stream.name, stream.embodiment) == ("kitchen", None)
    stack, wipe = stream.tasks
    assert stack.task == catalog.task("stack_bowls")
    assert stack.dataset == str(tmp_path / "data" / "stack_bowls")
    assert (wipe.task.instruction, wipe.task.arms, wipe.dataset) == ("Wipe the table.", ("left",), "me/wipe_table")
    assert [m.needs for m in wipe.task.milestones] == [(), ("cloth_held",)]
    assert (wipe.task.penalties[0].value, wipe.task.penalties[0].most) == (1.0, 3)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("/data/bowls", "/data/bowls"),
        ("bowls", "{folder}/bowls"),
        ("./me/bowls", "{folder}/me/bowls"),
        ("../bowls", "{parent}/bowls"),
        ("a/b/c", "{folder}/a/b/c"),
        ("here/bowls", "{folder}/here/bowls"),
        ("me/bowls", "me/bowls"),
        ("me/bowls-v2.1", "me/bowls-v2.1"),
    ],
)
def test_dataset_is_a_folder_or_a_hub_id(written, found, tmp_path):
    (tmp_path / "here" / "bowls").mkdir(parents=True)
    stream = catalog.load_stream(write(tmp_path, one_task('name = "stack_bowls"', f'dataset = "{written}"')))
    assert stream.tasks[0].dataset == found.format(folder=tmp_path, parent=tmp_path.parent)


def test_datasets_do_not_depend_on_where_the_command_runs(tmp_path, monkeypatch):
    write(tmp_path, one_task('name = "stack_bowls"', 'dataset = "bowls"'))
    monkeypatch.chdir(tmp_path)
    assert catalog.load_stream("kitchen.toml").tasks[0].dataset == str(tmp_path / "bowls")


def test_data_root_serves_tasks_without_a_dataset_of_their_own(tmp_path):
    text = one_task('name = "stack_bowls"') + '\n[[task]]\nname = "hang_cup"\ndataset = "me/cup"'
    stream = catalog.load_stream(write(tmp_path, text), "/data")
    assert [entry.dataset for entry in stream.tasks] == ["/data/stack_bowls", "me/cup"]


WIPE = ('name = "wipe"', 'instruction = "Wipe."', 'arms = ["left"]', 'dataset = "me/wipe"')
MILESTONES = ("[[task.milestone]]", 'name = "a"', 'text = "A."', "[[task.milestone]]", 'name = "b"', 'text = "B."')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param('name = "kitchen', ["not valid TOML", "line 1"], id="unfinished TOML"),
        pytest.param('name = "kitchen"\nx = = 3', ["not valid TOML", "line 2"], id="broken TOML"),
        pytest.param("task = " + "[" * 5000, ["nested too deeply"], id="deep list"),
        pytest.param(".".join("a" * 20_000) + " = 1", ["nested too deeply"], id="20,000 dotted keys"),
        pytest.param('name = "kitchen"', ["no task", "[[task]]"], id="empty stream"),
        pytest.param('name = "kitchen"\ntask = []', ["no task"], id="empty list"),
        pytest.param('name = "kitchen"\ntask = ["stack_bowls"]', ["task 1", "table", "stack_bowls"], id="not a table"),
        pytest.param(one_task(*WIPE).replace('name = "kitchen"', ""), ["'name'", "nothing"], id="no stream name"),
        pytest.param(one_task(*WIPE).replace("kitchen", "a/b"), ["'a/b'", "letters"], id="name unfit for a folder"),
        pytest.param('nam = "x"', ["key 'nam'", "Did you mean 'name'"], id="unknown key of the stream"),
        pytest.param(one_task(*WIPE, 'instuction = "x"'), ["task 1", "Did you mean 'instruction'"], id="unknown key"),
        pytest.param(
            one_task('name = "stak_bowls"', 'dataset = "x"'),
            ["Did you mean 'stack_bowls'", "instruction and arms"],
            id="unknown task",
        ),
        pytest.param(one_task('dataset = "x"'), ["task 1: 'name'", "nothing"], id="no task name"),
        pytest.param(
            'embodiment = "piper_x_pair"\n' + one_task(*WIPE[:2], WIPE[3]), ["'wipe'", "lacks arms"], id="no arms"
        ),
        pytest.param(one_task(*WIPE[:3]), ["names no dataset", "--data_root", "dataset ="], id="no dataset"),
        pytest.param(one_task(*WIPE[:3], "dataset = 3"), ["'dataset'", "text in quotes", "got 3"], id="dataset number"),
        pytest.param(one_task(*WIPE[:3], 'dataset = ""'), ["empty dataset"], id="dataset empty"),
        pytest.param(one_task(*WIPE).replace('["left"]', '"left"'), ["'arms'", "list", "'left'"], id="arms not a list"),
        pytest.param(one_task(*WIPE).replace('["left"]', "[1]"), ["'arms' 1", "text", "got 1"], id="arms not texts"),
        pytest.param(one_task(*WIPE).replace('["left"]', "[]"), ["each arm"], id="no arm"),
        pytest.param(one_task(*WIPE, "demonstrations = true"), ["'demonstrations'", "whole"], id="bool for a number"),
        pytest.param(one_task(*WIPE).replace("Wipe.", " "), ["empty instruction"], id="empty instruction"),
        pytest.param(
            one_task('name = "stack_bowls"', 'dataset = "x"', 'instruction = "Other."'),
            ["catalog", "Drop instruction", "another name"],
            id="catalog task redefined",
        ),
        pytest.param(
            one_task(*WIPE) + "\n[[task]]\n" + "\n".join(WIPE).replace("Wipe.", "Rub."),
            ["'wipe' twice", "another definition", "needs its own name"],
            id="task redefined",
        ),
        pytest.param(
            one_task(*WIPE, *MILESTONES[:3], 'needs = ["b"]', *MILESTONES[3:]),
            ["needs", "'b'", "earlier"],
            id="needs a later milestone",
        ),
        pytest.param(one_task(*WIPE, *MILESTONES[:2]), ["'milestone' 1", "lacks text"], id="milestone without text"),
        pytest.param(
            one_task(*WIPE, "[task.milestone]", 'name = "a"'), ["'milestone'", "double brackets"], id="single brackets"
        ),
        *(
            pytest.param(
                one_task(*WIPE, "[[task.penalty]]", 'name = "p"', 'text = "P."', f"value = {value}"), says, id=value
            )
            for value, says in {
                "0": ["'p'", "more than 0"],
                "-0.5": ["'p'", "more than 0", "-0.5"],
                "nan": ["'value'", "finite"],
                '"much"': ["'value'", "number", "'much'"],
            }.items()
        ),
        pytest.param(
            one_task(*WIPE, *2 * ("[[task.penalty]]", 'name = "p"', 'text = "P."', "value = 1")),
            ["two penalties"],
            id="duplicate penalty",
        ),
    ],
)
def test_mistake_in_a_stream_file_is_named_with_its_file(text, says, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(HoldfastError) as caught:
        catalog.load_stream(path)
    for part in [path, *says]:
        assert part in str(caught.value)


def test_a_task_need_not_name_the_arm_of_a_robot_that_has_but_one(tmp_path):
    robot = tmp_path / "robot.toml"
    row = '[[dimension]]\nname = "x"\narm = "panda"\nkind = "delta"\nlower = -1\nupper = 1\nstep = 0.5\n'
    robot.write_text(row)
    text = one_task(*WIPE[:2], WIPE[3])
    assert catalog.load_stream(write(tmp_path, text)).tasks[0].task.arms == ("arm",)
    with_robot = f'embodiment = "robot.toml"\n{text}'  # beside the stream's file, as its datasets are
    assert catalog.load_stream(write(tmp_path, with_robot)).tasks[0].task.arms == ("panda",)


def test_a_stream_of_too_many_tasks_is_refused_at_once(tmp_path):
    path = write(tmp_path, 'name = "kitchen"\n' + "[[task]]\n" * 1001)
    with pytest.raises(HoldfastError, match=r"lists 1001 tasks. Use at most 1000\.$"):
        catalog.load_stream(path)


def test_missing_file_lists_the_catalog():
    with pytest.raises(HoldfastError, match=r"(?s)'single_arms'.*Did you mean 'single_arm'.*heterogeneous.*TOML file"):
        catalog.load_stream("single_arms")


def test_folder_and_binary_file_are_refused(tmp_path):
    with pytest.raises(HoldfastError, match="is a folder"):
        catalog.load_stream(str(tmp_path))
    (tmp_path / "kitchen.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HoldfastError, match="UTF-8"):
        catalog.load_stream(str(tmp_path / "kitchen.toml"))


def test_loading_opens_no_dataset(tmp_path):
    # The audit hook sees every open and every listing of a folder, whoever asks for it.
    (tmp_path / "data" / "stack_bowls").mkdir(parents=True)
    (tmp_path / "data" / "stack_bowls" / "info.json").write_text("{}")
    path = write(tmp_path, KITCHEN)
    code = (
        "import sys; from holdfast import catalog; seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append((event, str(args[0]) if args else '')))\n"
        f"catalog.load_stream({path!r})\n"
        "print([s for s in seen if s[0] in ('open', 'os.listdir', 'os.scandir')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert path in result.stdout
    assert "stack_bowls" not in result.stdout


def test_import_is_light():
    code = "import sys, holdfast.catalog; print({'torch', 'numpy', 'lerobot'} & {*sys.modules})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
