"""`holdfast completion SHELL`: complete commands, flags and names in bash, zsh and fish.

The scripts ask `holdfast completion --words ...` at every Tab, so they never grow old.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from keyword import iskeyword

from holdfast.commands import COMMANDS
from holdfast.commands.parser import Handed, Parser

_HELP = """\
Print a script that completes commands, flags and names when you press Tab. Where Holdfast has nothing to offer, the
shell offers files.
"""
_EXAMPLES = """\
examples:
  holdfast completion bash >> ~/.bashrc
  holdfast completion zsh >> ~/.zshrc                         after the line with compinit
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
"""
SCRIPTS = {
    "bash": """\
_holdfast() {
    local IFS=$'\\n'
    COMPREPLY=($(holdfast completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _holdfast holdfast
""",
    "zsh": """\
_holdfast() {
    local -a found
    found=("${(@f)$(holdfast completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=(${found:#})
    (( $#found )) || { _files; return }
    compadd -S '' -- ${(M)found:#*=}
    compadd -- ${found:#*=}
}
compdef _holdfast holdfast
""",
    "fish": """\
function __holdfast_offers
    set -l words (commandline -opc) (commandline -ct)
    set -g __holdfast_found (holdfast completion --words $words[2..] 2>/dev/null | string match -r '.+')
    set -q __holdfast_found[1]
end
complete -c holdfast -n __holdfast_offers -f -a '$__holdfast_found'
""",
}


def main(argv: list[str]) -> int:
    """Run `holdfast completion`."""
    if argv[:1] == ["--words"]:
        print("\n".join(complete(argv[1:])))
        return 0
    parser = Parser(prog="holdfast completion", description=_HELP, epilog=_EXAMPLES)
    parser.add_argument("shell", choices=SCRIPTS, help="bash, zsh or fish")
    print(SCRIPTS[parser.parse_args(argv).shell], end="")
    return 0


def complete(words: list[str]) -> list[str]:
    """What the last of the words can become. bash takes `--flag=value` apart; then the value alone is completed."""
    *before, word = words or [""]
    if not before:
        return _starting(word, COMMANDS)
    command = before[0]
    if command not in COMMANDS:
        return []
    if word == "=" or before[-1] == "=":
        flag, word = (before[-1], "") if word == "=" else (before[-2], word)
        return _starting(word, _values(command, flag, before))
    if word.startswith("-"):
        flag, equals, value = word.partition("=")
        if equals:
            return [f"{flag}={found}" for found in _starting(value, _values(command, flag, before))]
        return _starting(word, _flags(command, before))
    return _starting(word, [*_values(command, before[-1], before), *_actions(command, before)])


def _starting(word: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(word)]


def _flags(command: str, before: list[str]) -> list[str]:
    if command == "train":
        from holdfast.commands.flags import flag_names
        from holdfast.methods import METHODS
        from holdfast.train.config import TrainConfig

        method = next((word.partition("=")[2] for word in before if word.startswith("--method=")), "er")
        options = flag_names(METHODS[method], "--method.") if method in METHODS else []
        return ["--help", *(f"{flag}=" for flag in ("--preset", *flag_names(TrainConfig), *options))]
    parser = _parser(command, before)
    return [flag for flag in parser.flags() if flag.startswith("--")] if parser else []


def _values(command: str, flag: str, before: list[str]) -> list[str]:
    """The names that a flag takes, as far as they are known."""
    from holdfast import catalog
    from holdfast.methods import METHODS
    from holdfast.policies.config import SHIPPED
    from holdfast.train.presets import PRESETS

    named: dict[str, Iterable[str]] = {
        "--stream": catalog.streams(),
        "--task": catalog.tasks(),
        "--tasks": catalog.tasks(),
        "--method": METHODS,
        "--preset": PRESETS,
        "--policy.path": SHIPPED,
        "--norm.stats": SHIPPED,
        "--device": ("auto", "cpu", "cuda"),
    }
    if flag in named:
        return list(named[flag])
    if command == "train":
        return _choices(flag)
    parser = _parser(command, before)
    actions = parser._option_string_actions if parser else {}
    return list(actions[flag].choices or ()) if flag in actions else []


def _choices(flag: str) -> list[str]:
    """The values of a flag of `train` that is a choice."""
    from typing import get_args, get_type_hints

    from holdfast.train.config import TrainConfig

    owner: type = TrainConfig
    *groups, name = flag.removeprefix("--").split(".")
    for group in groups:
        owner = get_type_hints(owner).get(group, object)
    hint = get_type_hints(owner).get(name)
    return ["true", "false"] if hint is bool else [value for value in get_args(hint) if isinstance(value, str)]


def _actions(command: str, before: list[str]) -> list[str]:
    """What a command takes as its first word: its actions, or names."""
    if len(before) > 1:
        return []
    if command == "run":
        from holdfast.recipes import RECIPES

        return [*RECIPES, "base"]
    parser = _parser(command, before)
    positional = [a for a in parser._actions if not a.option_strings] if parser else []
    return [str(choice) for action in positional[:1] for choice in action.choices or ()]


def _parser(command: str, before: list[str]) -> Parser | None:
    """The parser of a command, or of the action that was named."""
    module = import_module(f"holdfast.commands.{command}{'_' * iskeyword(command)}")
    Parser.hands_over = True
    try:
        module.main(before[1:])
    except Handed as handed:
        below = handed.parser.below()
        return next((below[word] for word in before[1:] if word in below), handed.parser)
    finally:
        Parser.hands_over = False
    return None
