"""`holdfast serve BUNDLE`: serve a policy to robots over a websocket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.commands.parser import Parser
from holdfast.core.device_name import check_device
from holdfast.core.errors import HoldfastError
from holdfast.core.outside import read_text
from holdfast.core.progress import working

if TYPE_CHECKING:
    from holdfast.serve.server import Server

_HELP = """\
Serve a bundle's policy to robots. It speaks openpi's websocket protocol, so the `openpi-client` package works as it is;
docs/serving.md lists the messages. Every request names its task, so one server serves one-arm and two-arm tasks.
Simultaneous requests are answered in one batch, and no answer depends on the other requests. An invalid request gets a
line of text as its answer, and the connection stays open.

It listens on this machine only. For other machines give --host and a token, or better use a tunnel (ssh -L): the
websocket itself is not encrypted. GET /healthz answers OK, GET /metrics is for Prometheus. Ctrl-C or SIGTERM stops it;
requests in progress are answered first.
"""
_EXAMPLES = """\
examples:
  holdfast bundle runs/kitchen-er --stage 2 --output kitchen-2     the bundle of a stage
  holdfast serve kitchen-2
  holdfast serve robot/current --port 9000                         the bundle last deployed there
  openssl rand -hex 32 > token && chmod 600 token
  holdfast serve kitchen-2 --host 0.0.0.0 --token-file token

in Python, on the robot's side:
  policy = openpi_client.websocket_client_policy.WebsocketClientPolicy("127.0.0.1", 8000)
  policy.infer({"state": pose, "images": {"head": pixels}, "prompt": "stack_bowls"})["actions"]
"""


def main(argv: list[str]) -> int:
    """Run `holdfast serve`."""
    parser = Parser(
        prog="holdfast serve",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="a folder of `holdfast bundle`")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one (8000)")
    parser.add_argument(
        "--token-file", "--token_file", type=Path, metavar="FILE", help="file with the token that clients must send"
    )
    parser.add_argument("--horizon", type=int, metavar="N", help="steps of an answer (as saved with the policy)")
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="requests answered in one batch; fewer are padded, so use 1 for one robot "
        "and a large policy (as in evaluation: 5 on a CPU, 32 on a GPU)",
    )
    parser.add_argument("--device", default="auto", help="device of the policy: cpu, cuda or auto (auto)")
    args = parser.parse_args(argv)
    if not 0 <= args.port < 2**16:
        raise HoldfastError(f"--port must be from 0 to {2**16 - 1}, got {args.port}.")
    if args.rows is not None and args.rows < 1:
        raise HoldfastError(f"--rows must be at least 1, got {args.rows}.")
    check_device(args.device)
    token = _token(args.token_file)

    with working("loading the policy"):
        from holdfast.serve.bundle import load
        from holdfast.serve.server import Server, check_host

        check_host(args.host, token)
        bundle = load(args.bundle)

        from holdfast.policies.device import choose_device
        from holdfast.policies.pilot import Pilot

        pilot = Pilot(bundle.path, bundle.names, choose_device(args.device), args.horizon, args.rows)
    print(f"bundle {bundle.hash}", flush=True)
    print(f"knows {', '.join(bundle.tasks)}", flush=True)
    _run(Server(bundle, pilot, token, lambda text: print(text, flush=True)), args.host, args.port)
    print("stopped", flush=True)
    return 0


def _run(server: Server, host: str, port: int) -> None:
    """Serve until a signal stops it."""
    import asyncio
    import signal

    shown = f"[{host}]" if ":" in host else host

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.stop)
        await server.run(host, port, lambda found: print(f"serving on ws://{shown}:{found}", flush=True))

    asyncio.run(serve())


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    token = read_text(file).strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise HoldfastError(
            f"--token-file {file} must hold at least 16 plain characters in one line. Make one: openssl rand -hex 32"
        )
    return token
