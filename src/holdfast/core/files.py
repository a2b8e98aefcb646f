"""Small files that a kill leaves whole: the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a small file so that a kill leaves the old one or the new one, never half of one."""
    temporary = path.with_name(f".{path.name}.writing")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
