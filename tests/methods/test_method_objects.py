"""A method given as an object: stored by its file, continued with it, and refused where there is none."""

import json
import sys
from dataclasses import dataclass, field

import pytest
from rich.console import Console
from toys import TINY

import holdfast
from holdfast.api.train import with_method
from holdfast.cli import main
from holdfast.core.errors import HoldfastError
from holdfast.methods.ewc import Ewc
from holdfast.methods.method import Method

FILE = """
from dataclasses import dataclass
from holdfast.methods.method import Method

runs = []
runs.append(__name__)

@dataclass(frozen=True)
class Gentle(Method):
    strength: float = 0.5

    def extra_loss(self, batch, loss, policy, kept):
        return self.strength * sum(w.square().sum() for w in policy.parameters() if w.requires_grad)
"""


@pytest.fixture
def gentle(toy, monkeypatch):
    monkeypatch.chdir(toy)
    monkeypatch.syspath_prepend(str(toy))
    (toy / "gentle_methods.py").write_text(FILE)
    import gentle_methods

    yield gentle_methods
    del sys.modules["gentle_methods"]


def settings(**more):
    options = dict(flag.removeprefix("--policy.").split("=") for flag in TINY)
    policy = holdfast.PolicyChoice(options=options)
    small = {"stream": "stream.toml", "tasks": ["reach", "lift"], "steps": 2, "batch_size": 4, "device": "cpu"}
    return holdfast.TrainConfig(policy=policy, **small, **more)


def test_it_trains_and_is_known_by_its_file(toy, gentle, capsys):
    run = holdfast.train(settings(), method=gentle.Gentle(strength=2.0), console=Console(quiet=True))
    assert (str(run.path), run.method) == ("runs/stream-Gentle", "gentle_methods.py:Gentle")
    assert run.settings["method_options"] == {"strength": 2.0}
    stored = json.loads((run.path / "method.json").read_text())
    assert (stored["name"], stored["arrangement"]) == ("gentle_methods.py:Gentle", "stream")
    lines = (run.path / "stages" / "02-lift" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["extra_loss"] > 0
    assert gentle.runs == ["gentle_methods"], "the file was run again"

    same = ["train", "--stream=stream.toml", "--tasks=[reach, lift]", "--device=cpu", *TINY]
    same += ["--steps=2", "--batch_size=4", "--method=gentle_methods.py:Gentle", "--method.strength=2"]
    assert main(same) == 0  # it is finished, so nothing is left to do
    with pytest.raises(HoldfastError, match=r"method_options.strength was 2.0, now 1.0"):
        holdfast.train(settings(), method=gentle.Gentle(strength=1.0), console=Console(quiet=True))
    (toy / "gentle_methods.py").write_text(FILE + "# another version\n")
    with pytest.raises(HoldfastError, match=r"was started with another version of gentle_methods\.py"):
        holdfast.train(settings(), method=gentle.Gentle(strength=2.0), console=Console(quiet=True))


def test_a_method_of_ours_goes_by_its_name():
    config = with_method(settings(), Ewc(strength=3.0))
    assert (config.method, config.method_options["strength"]) == ("ewc", 3.0)


def test_a_class_that_no_file_holds_is_refused(monkeypatch):
    class Inner(Method):
        pass

    with pytest.raises(HoldfastError, match=r"Inner could not be found again .*%%writefile my_code\.py"):
        with_method(settings(), Inner())
    typed = type("Typed", (Method,), {"__module__": "__main__"})  # as in a notebook
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    with pytest.raises(HoldfastError, match="Typed could not be found again"):
        with_method(settings(), typed())


@dataclass(frozen=True)
class Odd(Method):
    """A method whose option is no plain value."""

    what: object = field(default_factory=object)


def test_options_that_cannot_be_stored_are_refused():
    with pytest.raises(HoldfastError):
        with_method(settings(), Odd())
