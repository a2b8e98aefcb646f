"""Whatever is in a file from outside, reading it ends with a result or with a HoldfastError of one line, and soon.

`make fuzz` reads 2,000 contents per reader; FUZZ sets another number.
"""

import os
import time

import pytest
from fuzz.mutations import mutated
from fuzz.readers import READERS
from hypothesis import HealthCheck, Phase, given, settings

from holdfast.core.errors import HoldfastError

CONTENTS = int(os.environ.get("FUZZ", "50"))
SECONDS = 5.0  # of this process, not of the clock


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_any_content_gives_a_result_or_an_error_of_one_line(reader, tmp_path, request, recwarn):
    file = reader.make(tmp_path, request.getfixturevalue)
    valid = file.read_bytes()
    assert read(reader, file, valid) == ""

    @settings(
        max_examples=CONTENTS,
        derandomize=True,
        database=None,
        phases=[Phase.generate],  # a failure is shown as it was found: making it smaller takes minutes
        suppress_health_check=list(HealthCheck),
    )
    @given(mutated(valid))
    def check(content):
        begun = time.process_time()
        said = read(reader, file, content)
        assert "\n" not in said
        assert time.process_time() - begun < SECONDS

    check()


def read(reader, file, content):
    """Read a file with this content; returns the error's message."""
    file.write_bytes(content)
    reader.seal(file)
    try:
        reader.read(file)
    except HoldfastError as error:
        return str(error)
    return ""
