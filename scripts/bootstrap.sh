#!/usr/bin/env bash
# Makes a virtual environment with Python 3.12 and uv in it, on a machine that has some Python 3 with pip.
# Usage: bootstrap.sh VENV
set -euo pipefail
venv=$1

find_python() { # PATH first, then pyenv's folders, then whatever uv manages
  local candidate
  for candidate in "$(command -v python3.12 || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3.12; do
    # A pyenv shim exists for every version and fails for those not selected: only a python that runs counts.
    if [ -x "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

if ! [ -x "$venv/bin/python" ] || ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))'; then
  rm -rf "$venv"
  python=$(find_python)
  if [ -n "$python" ] && "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet "uv>=0.8"
  else
    # Debian splits venv from Python, and older releases have no 3.12: uv can make the environment and fetch a Python.
    helper=$(mktemp -d)
    python3 -m pip install --quiet --target "$helper" "uv>=0.8"
    PYTHONPATH=$helper python3 -m uv venv --quiet --python "${python:-3.12}" "$venv" || {
      echo "No Python 3.12 was found and none could be fetched. Install python3.12 (apt, pyenv or uv) and run make again." >&2
      exit 1
    }
    PYTHONPATH=$helper python3 -m uv pip install --quiet --python "$venv/bin/python" "uv>=0.8"
    rm -rf "$helper"
  fi
fi
[ -x "$venv/bin/uv" ] || "$venv/bin/python" -m pip install --quiet "uv>=0.8"

# LeRobot's video decoder loads FFmpeg's libraries, MuJoCo renders through EGL or OSMesa, the report is tested in a
# browser. Install what is missing where that is possible without asking; otherwise say what to install.
missing=()
ldconfig -p | grep -q 'libEGL.so.1' || missing+=(libegl1)
ldconfig -p | grep -q 'libOSMesa.so' || missing+=(libosmesa6)
ldconfig -p | grep -q 'libavcodec.so' || missing+=(ffmpeg)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
failed=("${missing[@]}")
if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] && apt-get update -qq >/dev/null 2>&1; then
  failed=()
  for package in "${missing[@]}"; do # one by one: Ubuntu has no chromium but as a snap, and that must not cost the rest
    if apt-get install -y -qq "$package" >/dev/null 2>&1; then echo "Installed $package."; else failed+=("$package"); fi
  done
fi
[ ${#failed[@]} -eq 0 ] || echo "Missing system packages. Please run: sudo apt-get install ${failed[*]}" >&2
