"""What a dataset's header says about its cameras."""

from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.data.lerobot.folder import read_cameras


def camera(**more):
    return {"dtype": "video", "shape": [48, 64, 3], "names": ["height", "width", "channels"], **more}


@pytest.mark.parametrize(
    "said",
    [
        {"info": {"is_depth_map": True}},
        {"info": {"video.is_depth_map": True}},
        {"video_info": {"video.is_depth_map": True}},
    ],
)
def test_a_depth_camera_is_no_picture_however_it_is_said(said):
    features = {
        "observation.images.head": camera(info={"is_depth_map": False}),
        "observation.images.deep": camera(**said),
    }
    assert [c.key for c in read_cameras(Path("x"), {"features": features})] == ["observation.images.head"]
    with pytest.raises(HoldfastError, match="no camera"):
        read_cameras(Path("x"), {"features": {"observation.images.deep": camera(**said)}})
