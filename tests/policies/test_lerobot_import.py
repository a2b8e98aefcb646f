"""Importing LeRobot leaves Python as it was, and the shortcut on the way finds what the long way does."""

import gc
import importlib
import importlib.metadata
import sys

import pytest

from holdfast.policies import lerobot_import


@pytest.mark.parametrize("collects", [True, False])
def test_collector_and_standard_library_are_as_before(collects):
    listing = importlib.metadata.packages_distributions
    try:
        (gc.enable if collects else gc.disable)()
        importlib.reload(lerobot_import)
        assert gc.isenabled() == collects
    finally:
        gc.enable()
    assert importlib.metadata.packages_distributions is listing


def test_also_when_lerobot_cannot_be_imported(monkeypatch):
    listing = importlib.metadata.packages_distributions
    monkeypatch.setitem(sys.modules, "lerobot.policies.factory", None)
    with pytest.raises(ImportError):
        importlib.reload(lerobot_import)
    assert gc.isenabled()
    assert importlib.metadata.packages_distributions is listing


def test_installed_packages_are_listed_as_by_the_standard_library():
    listed = importlib.metadata.packages_distributions()
    found = lerobot_import._list_packages()
    assert {name: sorted(owners) for name, owners in found.items()} == {
        name: sorted(owners) for name, owners in listed.items()
    }
    assert "torch" in found["torch"]
    assert "typing_extensions" in found["typing_extensions"], "a module that is one file"
