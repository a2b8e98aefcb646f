#!/usr/bin/env bash
# Collects into wheels/ what a GPU machine without network needs beside an image of torch (with torchvision, pillow, numpy, pandas,
# pyarrow, opencv and safetensors are taken to be there), in the versions of the lock, and the GL loader for rendering;
# packed into archives, which are smaller than the wheels: site (all but studies) and ray (studies). There: source
# wheels/activate.sh, which unpacks the archives it finds.
# Usage: gpu_pack.sh VENV_BIN
set -euo pipefail
bin=$1
names=(lerobot draccus mergedeep mypy-extensions typing-inspect toml pyyaml pyyaml-include gymnasium farama-notifications
  cloudpickle datasets dill multiprocess xxhash fsspec huggingface-hub av jsonlines termcolor rich
  markdown-it-py mdurl pygments deepdiff mujoco mujoco-core glfw pyopengl jinja2 markupsafe matplotlib contourpy
  cycler fonttools kiwisolver pyparsing transformers tokenizers regex peft accelerate psutil filelock pydantic
  pydantic-core annotated-types typing-inspection typing-extensions prometheus-client pytest-timeout hypothesis
  sortedcontainers)
ray=(ray click jsonschema jsonschema-specifications referencing rpds-py attrs msgpack protobuf packaging requests
  charset-normalizer idna urllib3 certifi)
rm -rf wheels && mkdir -p wheels
"$bin/uv" export --quiet --frozen --extra pi --extra ray --extra twin --no-hashes --no-emit-workspace >wheels/all.txt

install() { # FOLDER NAME...
  local folder=$1 && shift
  for name in "$@"; do grep -E "^$name==" wheels/all.txt | cut -d' ' -f1 || true; done >wheels/pack.txt
  "$bin/python" -m pip install --quiet --no-deps --only-binary=:all: --no-compile --target "$folder" --requirement wheels/pack.txt
}
pack() { tar -C wheels -I 'xz -T0 -7' -cf "wheels/$1.tar.xz" "$1" && rm -r "wheels/$1"; }

install wheels/site "${names[@]}"
# Never used there: stubs, documents and samples, debug symbols of extension modules, fontTools (figures as PDF).
find wheels/site -name '*.pyi' -delete
rm -rf wheels/site/{fontTools,bin,mujoco/doc,matplotlib/mpl-data/sample_data}
command -v strip >/dev/null && find wheels/site -name '*.cpython-*.so' -exec strip --strip-debug {} +
pack site

install wheels/ray "${ray[@]}"
rm -rf wheels/ray/bin wheels/ray/ray/{jars,rllib,llm,serve,data,train,tune,air,cpp} wheels/ray/ray/dashboard/client
pack ray

mkdir wheels/gl
if command -v apt-get >/dev/null; then
  (cd wheels/gl && apt-get download -qq libegl1 libglvnd0 libopengl0 libgl1 libglx0 libgles2 2>/dev/null &&
    for deb in *.deb; do dpkg -x "$deb" . && rm "$deb"; done) || echo "No GL loader packed: rendering needs libegl1 there."
fi
echo '{"file_format_version":"1.0.0","ICD":{"library_path":"libEGL_nvidia.so.0"}}' >wheels/gl/nvidia.json

cat >wheels/activate.sh <<'ACTIVATE'
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Compiled once here: every process that imports LeRobot starts in half the time.
for part in site ray; do
  [ -d "$here/$part" ] || [ ! -e "$here/$part.tar.xz" ] ||
    { tar -C "$here" -xJf "$here/$part.tar.xz" && python3 -m compileall -q -j 0 "$here/$part"; }
done
export PYTHONPATH=$here/site:$here/ray:$here/../src:$here/../src/holdfast/lerobot_plugins
export LD_LIBRARY_PATH=$here/gl/usr/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}
export __EGL_VENDOR_LIBRARY_FILENAMES=$here/gl/nvidia.json MUJOCO_GL=egl HF_HUB_OFFLINE=1
ACTIVATE
du -sh wheels
