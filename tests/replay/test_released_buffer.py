import json

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.replay.released import read_episodes

STARTS, ENDS = [0, 10, 25], [10, 25, 30]
GOOD = {
    "dataset_name": "pi05_stack_bowls",
    "mode": "episode",
    "buffer_indices": [*range(10), *range(25, 30)],
    "original_dataset_size": 30,
    "episode_indices": ["0", "2"],
    "original_num_episodes": 3,
    "episode_to_steps": {"0": list(range(10)), "2": list(range(25, 30))},
    "per_task_fraction": 0.1,
    "num_total_tasks": 2,
}


def read(tmp_path, **changes):
    file = tmp_path / "task1_buffer.json"
    file.write_text(json.dumps({**GOOD, **changes}))
    return read_episodes(file, STARTS, ENDS)


def test_the_episodes_are_read_in_their_order(tmp_path):
    assert read(tmp_path) == (0, 2)
    assert read(tmp_path, episode_indices=["2", "0"]) == (2, 0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "transition"}, "keeps single frames.*REPLAY_MODE=episode"),
        ({"original_num_episodes": 4}, "built from 4 episodes with 30 frames; the dataset has 3 with 30"),
        ({"original_dataset_size": 31}, "built from 3 episodes with 31 frames"),
        ({"episode_indices": ["0", "3"]}, r"must list episodes 0 to 2.*got \[0, 3\]"),
        ({"episode_indices": ["0", "0"]}, r"each at most once, got \[0, 0\]"),
        ({"episode_indices": []}, "must list episodes 0 to 2"),
        ({"episode_indices": ["0", "1"]}, "keeps other frames than its episodes"),
        ({"buffer_indices": "all"}, "not a replay buffer of the released code"),
    ],
)
def test_what_does_not_fit_the_dataset_is_named(tmp_path, changes, said):
    with pytest.raises(HoldfastError, match=said):
        read(tmp_path, **changes)


def test_files_that_are_none(tmp_path):
    with pytest.raises(HoldfastError, match="cannot be read"):
        read_episodes(tmp_path / "missing.json", STARTS, ENDS)
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(HoldfastError, match="not a replay buffer"):
        read_episodes(tmp_path / "x.json", STARTS, ENDS)
