import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.records import Matrix
from holdfast.matrix_files import matrix_from_csv, matrix_from_json

TASKS = ["stack_bowls", "hang_cup", "press_button"]
ROWS = [[100], [80, 90], [50, 85, 70]]
MATRIX = matrix_from_json({"tasks": TASKS, "cells": ROWS, "baseline": [95, 80, 75]})


def test_json_forms_of_a_score():
    matrix = matrix_from_json({"tasks": ["a", "b"], "cells": [[1], [[2, 3.5], None]], "baseline": [None, [4]]})
    assert matrix == Matrix(("a", "b"), {(1, 1): (1,), (1, 2): (2, 3.5)}, {2: (4,)})
    assert matrix_from_json({"tasks": ["a"], "cells": [[[]]]}).cells == {}


@pytest.mark.parametrize(
    ("obj", "says"),
    [
        ([1], "object"),
        ({"cells": [[1]]}, "names of its tasks"),
        ({"tasks": [], "cells": [[1]]}, "names of its tasks"),
        ({"tasks": ["a", 2], "cells": [[1]]}, "names of its tasks"),
        ({"tasks": ["a", "a"], "cells": [[1]]}, "once"),
        ({"tasks": ["a"]}, "'cells' must list 1 to 1 rows.*nothing"),
        ({"tasks": ["a"], "cells": []}, "a list of 0"),
        ({"tasks": ["a"], "cells": [[1], [1]]}, "a list of 2"),
        ({"tasks": ["a", "b"], "cells": [1]}, "Row 1 .*got 1"),
        ({"tasks": ["a", "b"], "cells": [[1], [1]]}, "Row 2 .*a list of 1.*null"),
        ({"tasks": ["a", "b"], "cells": [[1, 2, 3]]}, "Row 1 .*a list of 3"),
        ({"tasks": ["a"], "cells": [["1"]]}, "a after stage 1 .*'1'"),
        ({"tasks": ["a"], "cells": [[True]]}, "a after stage 1 .*True"),
        ({"tasks": ["a"], "cells": [[[[1]]]]}, "a after stage 1"),
        ({"tasks": ["a"], "cells": [[float("inf")]]}, "inf of a after stage 1"),
        ({"tasks": ["a"], "cells": [[1]], "baseline": [1, 2]}, "'baseline' must list 1 .*a list of 2"),
        ({"tasks": ["a"], "cells": [[1]], "baseline": {"a": 1}}, "'baseline'"),
        ({"tasks": ["a"], "cells": [[1]], "baseline": ["x"]}, "baseline of a .*'x'"),
        ({"tasks": ["a"], "cells": [[1]], "baselin": [1]}, "Did you mean 'baseline'"),
    ],
)
def test_wrong_json_is_explained(obj, says):
    with pytest.raises(HoldfastError, match=says):
        matrix_from_json(obj)


@pytest.mark.parametrize(
    "text",
    [
        "stage,stack_bowls,hang_cup,press_button\n1,100,,\n2,80,90,\n3,50,85,70\nbaseline,95,80,75\n",
        "\ufeffstage, stack_bowls, hang_cup, press_button\r\n1,100\r\n2,80,90\r\n\r\n3,50,85,70\r\nbaseline,95,80,75",
    ],
)
def test_csv_equals_json(text):
    assert matrix_from_csv(text) == MATRIX


def test_csv_keeps_absent_absent():
    matrix = matrix_from_csv("stage,a,b\n1,10,5\n2,,0\n")
    assert matrix == Matrix(("a", "b"), {(1, 1): (10,), (2, 1): (5,), (2, 2): (0,)})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty file"),
        ("a,b\n1,2\n", "'a,b'"),
        ("stage\n1\n", "names of its tasks"),
        ("stage,a,a\n1,2,3\n", "once"),
        ("stage,a\n", "no row of a stage"),
        ("stage,a\nbaseline,3\n", "no row of a stage"),
        ("stage,a\n2,3\n", "1 to 1.*'2'"),
        ("stage,a\nfirst,3\n", "'first'"),
        ("stage,a\n1,3\n1,4\n", "'1' has two rows"),
        ("stage,a\n1,3\nbaseline,3\nbaseline,4\n", "'baseline' has two rows"),
        ("stage,a\n1,3,4\n", "2 scores for 1"),
        ("stage,a\n1,good\n", "a after stage 1 .*'good'"),
        ("stage,a\n1,nan\n", "a after stage 1"),
    ],
)
def test_wrong_csv_is_explained(text, says):
    with pytest.raises(HoldfastError, match=says):
        matrix_from_csv(text)
