"""Renderers that nobody closed are silent when a program ends, in every process."""

import ctypes.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.sim
CODE = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import mujoco
import numpy as np

from holdfast.twin.views import Views

OPEN = []


def draw():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><camera name="top" pos="0 0 1"/><geom size=".1"/></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    OPEN.append(Views(model, ["top"], 32, 32))
    (now,) = OPEN[-1].draw(data, ["top"])
    OPEN[-1].draw_later(data)
    ((later,),) = OPEN[-1].read_waiting()
    OPEN[-1].draw_later(data)
    return now.any() and np.array_equal(now, later)


if __name__ == "__main__":
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        print(draw() and pool.submit(draw).result())
"""


@pytest.mark.skipif(not ctypes.util.find_library("OSMesa"), reason="no OSMesa; apt install libosmesa6")
def test_osmesa_ends_without_complaints(tmp_path):
    (tmp_path / "script.py").write_text(CODE)
    environment = {**os.environ, "MUJOCO_GL": "osmesa", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("PYOPENGL_PLATFORM", None)  # MuJoCo sets it where it was imported before
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
