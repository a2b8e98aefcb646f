"""Write the tables, figures and numbers of docs/study.md anew, from the evidence in docs/evidence.

Usage: python scripts/study_docs.py            (`make study-docs`)
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.core.files import write_text
from holdfast.studies.docs_page import FIGURES, write_page

DOCS = Path(__file__).parents[1] / "docs"


def main() -> int:
    """Write the page and its figures; figures that it no longer shows are deleted."""
    page = DOCS / "study.md"
    try:
        written = write_page(page.read_text(), DOCS)
    except HoldfastError as error:
        print(f"{page}: {error}", file=sys.stderr)
        return 2
    (DOCS / FIGURES).mkdir(parents=True, exist_ok=True)
    for old in (DOCS / FIGURES).iterdir():
        if f"{FIGURES}/{old.name}" not in written.files:
            old.unlink()
    for path, content in written.files.items():
        write_text(DOCS / path, content)
    write_text(page, written.text)
    print(f"{page}: {len(written.files) // 2} figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
