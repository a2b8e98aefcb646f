import json

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.norm.released import read_norm_stats

TABLE = {"mean": [0.0, 1.0], "std": [1.0, 2.0], "q01": [-1.0, -2.0], "q99": [1.0, 3.0]}


def write(tmp_path, state=None, actions=None, wrapped=True):
    content = {"state": {**TABLE, **(state or {})}, "actions": {**TABLE, **(actions or {})}}
    path = tmp_path / "norm_stats.json"
    path.write_text(json.dumps({"norm_stats": content} if wrapped else content))
    return path


@pytest.mark.parametrize("wrapped", [True, False])
def test_quantiles_and_extremes_are_read(tmp_path, wrapped):
    path = write(tmp_path, actions={"q01": [-5.0, -6.0], "vmin": [-7.0, -8.0], "vmax": [7.0, 8.0]}, wrapped=wrapped)
    space = read_norm_stats(path, 2)
    assert space.state.q99 == (1.0, 3.0)
    assert (space.action.q01, space.action.min, space.action.max) == ((-5.0, -6.0), (-7.0, -8.0), (7.0, 8.0))
    assert space.state.min == space.state.q01


def test_what_pads_to_the_network_s_width_is_dropped(tmp_path):
    padded = {name: [*values, *[0.0] * 30] for name, values in TABLE.items()}
    assert read_norm_stats(write(tmp_path, padded, padded), 2) == read_norm_stats(write(tmp_path), 2)


@pytest.mark.parametrize(
    ("state", "dimensions", "said"),
    [
        ({}, 3, "needs 3 finite numbers called 'q01'"),
        ({}, 1, "has 2 dimensions, the datasets have 1.*another robot"),
        ({"q99": None}, 2, "needs 2 finite numbers called 'q99', got None"),
        ({"mean": [0.0, float("nan")]}, 2, r"mean\[1\] is nan"),
        ({"std": "wide"}, 2, "called 'std'"),
    ],
)
def test_statistics_that_do_not_fit_are_named(tmp_path, state, dimensions, said):
    with pytest.raises(HoldfastError, match=said):
        read_norm_stats(write(tmp_path, state), dimensions)


@pytest.mark.parametrize("text", ["{", "[]", '{"norm_stats": {"state": {}}}', '{"norm_stats": 3}'])
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(HoldfastError, match=r"x.json"):
        read_norm_stats(tmp_path / "x.json", 2)
    with pytest.raises(HoldfastError, match="cannot be read"):
        read_norm_stats(tmp_path / "y.json", 2)
