import pytest
from blocks import python_blocks, run_blocks

PAGE = """# A page

```python title="parts/door.py"
OPEN = True
```

```bash
exit 1
```

```python
from parts.door import OPEN
seen = [OPEN]
```

```python
seen.append(2)
```
"""


def test_a_page_is_run_in_its_order(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text(PAGE)
    assert len(python_blocks(tmp_path / "page.md")) == 3
    assert run_blocks(tmp_path / "page.md", tmp_path, monkeypatch).seen == [True, 2]


def test_an_error_names_the_line_of_the_page(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("# A page\n\n```python\nx = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as error:
        run_blocks(tmp_path / "page.md", tmp_path, monkeypatch)
    assert error.traceback[-1].lineno + 1 == 5
