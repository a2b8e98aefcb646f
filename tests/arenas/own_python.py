"""A Python of its own for a worker: what is installed here, and a folder of further modules."""

import json
import subprocess
import sys
import sysconfig


def make_python(folder, modules):
    """Make an environment `env` in a folder; `modules` are texts by path, importable there. Returns its interpreter."""
    for path, text in modules.items():
        (folder / "modules" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "modules" / path).write_text(text)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    show = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", show], check=True, capture_output=True, text=True).stdout.strip()
    with open(f"{packages}/further.pth", "w") as file:
        file.write(f"{folder / 'modules'}\n{sysconfig.get_path('purelib')}\n")
    return python


def write_arena(folder, python, worker, options, name="own", further=""):
    """An arena's file, `own.toml`, with further lines."""
    file = folder / f"{name}.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items() if not isinstance(value, dict)]
    tables = {key: value for key, value in options.items() if isinstance(value, dict)}
    for key, table in tables.items():
        lines += [f"[options.{key}]", *(f"{word} = {json.dumps(value)}" for word, value in table.items())]
    head = [f"python = {json.dumps(str(python))}", f'worker = "{worker}"', "timeout = 600", further, "[options]"]
    file.write_text("\n".join([*head, *lines]))
    return file
