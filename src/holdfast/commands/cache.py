"""`holdfast cache ls|rm`: list and remove decoded frames that runs share."""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import asdict

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.commands.parser import Parser
from holdfast.core.errors import HoldfastError, unknown
from holdfast.data.cache.config import CacheConfig
from holdfast.data.cache.listing import CacheEntry, list_caches, remove_cache, remove_quantiles, say_size

_HELP = """\
Training decodes every video once, resizes its images to what the policy reads, and keeps them here for all runs.
A removed cache is rebuilt when it is needed.
"""
_EXAMPLES = """\
examples:
  holdfast cache ls
  holdfast cache rm 3f2a
  holdfast cache rm --unused-for 30d
  holdfast cache rm --all
"""
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


def main(argv: list[str]) -> int:
    """Run `holdfast cache`."""
    parser = Parser(
        prog="holdfast cache",
        description=_HELP,
        epilog=_EXAMPLES,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ls|rm")
    listing = actions.add_parser("ls", help="every cache with its dataset, size and last use")
    listing.add_argument("--json", action="store_true", help="print one JSON list instead of a table")
    removing = actions.add_parser("rm", help="remove caches by key, by age, or all")
    removing.add_argument("keys", metavar="KEY", nargs="*", help="a key of `holdfast cache ls`, or its beginning")
    removing.add_argument("--unused-for", metavar="AGE", help="caches not used for this long: 12h, 30d, 4w")
    removing.add_argument("--all", action="store_true", help="all caches, and the stored quantiles")
    for action in (listing, removing):
        action.add_argument("--root", default="", help="folder ($HOLDFAST_CACHE, or ~/.cache/holdfast/frames)")
    args = parser.parse_args(argv)
    return _list(args) if args.action == "ls" else _remove(args)


def _list(args: argparse.Namespace) -> int:
    root = CacheConfig(args.root).folder
    caches = list_caches(root)
    if args.json:
        print(json.dumps([asdict(cache) for cache in caches], indent=1))
        return 0
    table = Table("key", "dataset", "images", "format", "frames", "size", "last used", box=SIMPLE_HEAD, show_edge=False)
    for cache in caches:
        kind = cache.format if cache.whole else f"{cache.format} (unfinished)"
        table.add_row(
            cache.key,
            escape(cache.dataset),
            escape(cache.images),
            kind,
            f"{cache.frames:,}",
            say_size(cache.bytes),
            _age(cache.used),
        )
    console = Console(width=max(100, Console().width))
    if caches:
        console.print(table)
    console.print(
        f"frame caches: {len(caches)}, {say_size(sum(c.bytes for c in caches))} in {root}", soft_wrap=True, markup=False
    )
    return 0


def _remove(args: argparse.Namespace) -> int:
    root = CacheConfig(args.root).folder
    caches = list_caches(root)
    chosen = {cache.key: cache for cache in _choose(args, caches)}
    for key in chosen:
        remove_cache(root, key)
    if args.all:
        remove_quantiles(root)
    print(f"removed {len(chosen)} of {len(caches)} frame caches, {say_size(sum(c.bytes for c in chosen.values()))}")
    return 0


def _choose(args: argparse.Namespace, caches: list[CacheEntry]) -> list[CacheEntry]:
    if not (args.keys or args.unused_for or args.all):
        raise HoldfastError("Say what to remove: a key of `holdfast cache ls`, --unused-for 30d, or --all.")
    if args.all:
        return caches
    chosen = []
    for key in args.keys:
        found = [cache for cache in caches if cache.key.startswith(key)]
        if not found:
            raise unknown("frame cache", key, [cache.key for cache in caches])
        if len(found) > 1:
            raise HoldfastError(f"{key!r} begins the keys of {len(found)} caches: {', '.join(c.key for c in found)}.")
        chosen += found
    if args.unused_for:
        oldest = time.time() - _parse_age(args.unused_for)
        chosen += [cache for cache in caches if cache.used < oldest]
    return chosen


def _parse_age(text: str) -> float:
    match = re.fullmatch(r"(\d+)([hdw])", text)
    if not match:
        raise HoldfastError(
            f"--unused-for must be a number of hours, days or weeks, like 12h, 30d or 4w, got {text!r}."
        )
    return int(match[1]) * _SECONDS[match[2]]


def _age(used: float) -> str:
    hours = max(0.0, time.time() - used) / 3600
    return f"{hours / 24:.0f} days ago" if hours >= 48 else f"{hours:.0f} hours ago" if hours >= 1 else "just now"
