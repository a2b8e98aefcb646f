"""A policy server without a policy, in a process of its own so that it can be killed: `python fake_server.py PORT HOW`.

HOW is "well", or "mute N": the N-th question of the process is never answered.
"""

import sys
import time

import numpy as np
from websockets.sync.server import serve

from holdfast.core.wire import pack, unpack
from holdfast.embodiments import EMBODIMENTS

NAMES = EMBODIMENTS["piper_x_pair"].names
port, how = int(sys.argv[1]), sys.argv[2]
mute = int(how.split()[1]) if how.startswith("mute") else -1
count = 0


def converse(connection):
    global count
    connection.send(pack({"names": list(NAMES), "cameras": {"head": [8, 8]}, "horizon": 16, "policy": "abc"}))
    for message in connection:
        question = unpack(message)
        count += 1
        if count == mute:
            time.sleep(60)
        state = question["observation.state"]
        actions = np.repeat(state[None], 16, axis=0)
        actions[:, 0] += np.arange(1, 17) * np.float32(0.01)
        connection.send(pack({"actions": actions}))


with serve(converse, "127.0.0.1", port, compression=None) as server:
    print("ready", flush=True)
    server.serve_forever()
