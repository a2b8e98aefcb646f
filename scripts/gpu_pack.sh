#!/usr/bin/env bash
# Collects into wheels/ what a GPU machine without network needs beside an image of torch (with torchvision, pillow, numpy, pandas,
# pyarrow, opencv and safetensors are taken to be there), in the versions of the lock, and the GL loader for rendering;
# packed into one archive, which is smaller than the wheels. There: source wheels/activate.sh
# Usage: gpu_pack.sh VENV_BIN
set -euo pipefail
bin=$1
names=(lerobot draccus mergedeep mypy-extensions typing-inspect toml pyyaml pyyaml-include gymnasium farama-notifications
  cloudpickle datasets dill multiprocess xxhash fsspec huggingface-hub av jsonlines termcolor rich
  markdown-it-py mdurl pygments deepdiff mujoco mujoco-core glfw pyopengl jinja2 markupsafe matplotlib contourpy
  cycler fonttools kiwisolver pyparsing transformers tokenizers regex peft accelerate psutil filelock pydantic
  pydantic-core annotated-types typing-inspection typing-extensions prometheus-client)
rm -rf wheels && mkdir -p wheels
"$bin/uv" export --quiet --frozen --no-dev --extra pi --no-hashes --no-emit-workspace >wheels/all.txt
for name in "${names[@]}"; do grep -E "^$name==" wheels/all.txt | cut -d' ' -f1 || true; done >wheels/pack.txt
"$bin/python" -m pip install --quiet --no-deps --only-binary=:all: --no-compile --target wheels/site --requirement wheels/pack.txt
# Never used there: stubs, documents and samples, debug symbols of extension modules, fontTools (figures as PDF).
find wheels/site -name '*.pyi' -delete
rm -rf wheels/site/{fontTools,bin,mujoco/doc,matplotlib/mpl-data/sample_data}
command -v strip >/dev/null && find wheels/site -name '*.cpython-*.so' -exec strip --strip-debug {} +
tar -C wheels -I 'xz -T0 -7' -cf wheels/site.tar.xz site && rm -r wheels/site

mkdir wheels/gl
if command -v apt-get >/dev/null; then
  (cd wheels/gl && apt-get download -qq libegl1 libglvnd0 libopengl0 libgl1 libglx0 libgles2 2>/dev/null &&
    for deb in *.deb; do dpkg -x "$deb" . && rm "$deb"; done) || echo "No GL loader packed: rendering needs libegl1 there."
fi
echo '{"file_format_version":"1.0.0","ICD":{"library_path":"libEGL_nvidia.so.0"}}' >wheels/gl/nvidia.json

cat >wheels/activate.sh <<'ACTIVATE'
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Compiled once here: every process that imports LeRobot starts in half the time.
[ -d "$here/site" ] || { tar -C "$here" -xJf "$here/site.tar.xz" && python3 -m compileall -q -j 0 "$here/site"; }
export PYTHONPATH=$here/site:$here/../src:$here/../src/holdfast/lerobot_plugins
export LD_LIBRARY_PATH=$here/gl/usr/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}
export __EGL_VENDOR_LIBRARY_FILENAMES=$here/gl/nvidia.json MUJOCO_GL=egl HF_HUB_OFFLINE=1
ACTIVATE
du -sh wheels
