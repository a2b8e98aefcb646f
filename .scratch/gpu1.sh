set -x
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
source wheels/activate.sh
H="python3 -c 'import sys; from holdfast.cli import main; sys.exit(main(sys.argv[1:]))'"
cat > /tmp/h.py <<'P'
import sys
from holdfast.cli import main
sys.exit(main(sys.argv[1:]))
P
cat > /tmp/gen.py <<'P'
from pathlib import Path
from holdfast.data.generate import write_dataset
from holdfast.embodiment import load
from holdfast.records import Task
e=load("piper_x_pair"); R=Path("/tmp/toy"); R.mkdir()
T={"reach":("left",),"lift":("left","right"),"sweep":("left",)}
for n,a in T.items(): write_dataset(R/n, Task(n,f"Please {n}.",a), e, episodes=60, length=24, size=96, cameras=("head","front","left_wrist","right_wrist"))
(R/"stream.toml").write_text('name="toy"\nembodiment="piper_x_pair"\n'+"".join(f'[[task]]\nname="{n}"\ninstruction="Please {n}."\narms={list(a)}\ndataset="{n}"\n' for n,a in T.items()))
P
time python3 /tmp/gen.py 2>&1 | tail -3
(time taskset -c 0,1 python3 benchmarks/engine.py) 2>&1 | tail -9
time python3 /tmp/h.py train --stream=/tmp/toy/stream.toml --dry-run 2>&1 | tail -12
time python3 /tmp/h.py train --stream=/tmp/toy/stream.toml --steps=300 --output=/tmp/run --checkpoint.every=100 --optim.ema=0.99 2>&1 | grep -v "pos " | tail -40
rm -rf /tmp/run/stages/03-sweep/checkpoint
python3 /tmp/h.py train --stream=/tmp/toy/stream.toml --steps=300 --output=/tmp/run --checkpoint.every=100 --optim.ema=0.99 2>&1 | tail -4
(timeout -s KILL 25 python3 /tmp/h.py train --stream=/tmp/toy/stream.toml --steps=300 --output=/tmp/run2 --checkpoint.every=100 --optim.ema=0.99) 2>&1 | tail -2
python3 /tmp/h.py train --stream=/tmp/toy/stream.toml --steps=300 --output=/tmp/run2 --checkpoint.every=100 --optim.ema=0.99 2>&1 | grep -v "pos " | tail -8
sha256sum /tmp/run*/stages/*/checkpoint/policy/model.safetensors
tail -1 /tmp/run/stages/03-sweep/metrics.jsonl | cut -c1-600
