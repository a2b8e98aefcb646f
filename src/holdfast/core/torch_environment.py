"""The environment variables that torch reads when it is imported."""

from __future__ import annotations

import os


def set_up_torch() -> None:
    """Set the environment variables that torch reads when it starts; those already set are left alone."""
    # On shared cores two threads can be far slower than one.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    # Without it GPU memory fragments: pi0.5's largest batch would be a tenth smaller.
    if "PYTORCH_CUDA_ALLOC_CONF" not in os.environ:  # the older name
        os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")
