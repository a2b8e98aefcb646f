"""A stage's final checkpoint: the policy, and everything needed to use it and to continue the run.

```
policy/               weights and processors, as LeRobot saves and loads them
normalization.json    every space of the run, with its hash
buffer.json           episodes kept for replay
schema.json           what all datasets have in common: frame rate, dimensions, cameras
datasets.json         fingerprints of the datasets that were trained on
config.json           the settings of `holdfast train`
method.*              what the method keeps, if anything (see methods/state.py)
manifest.json         SHA-256 of every other file
```
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.core.checked_folder import MANIFEST, file_hash, read_manifest
from holdfast.core.errors import HoldfastError
from holdfast.core.json_records import read_content, read_json, to_json
from holdfast.methods.state import TENSORS
from holdfast.norm.strategies import Normalization
from holdfast.policies.saved_folder import CONFIG, NORMALIZATION, POLICY, read_config
from holdfast.replay.buffer import Buffer

WEIGHTS = f"{POLICY}/model.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """What a finished stage left behind. Files are read on first access and cached."""

    folder: Path

    @property
    def exists(self) -> bool:
        """Whether the stage is finished: a checkpoint is complete or absent."""
        return self.manifest_file.exists()

    @property
    def policy(self) -> Path:
        """Folder that LeRobot loads."""
        return self.folder / POLICY

    @property
    def normalization_file(self) -> Path:
        """File of the normalization."""
        return self.folder / NORMALIZATION

    @property
    def buffer_file(self) -> Path:
        """File of the buffer."""
        return self.folder / "buffer.json"

    @property
    def manifest_file(self) -> Path:
        """File with the hashes of all others."""
        return self.folder / MANIFEST

    @property
    def weights_bytes(self) -> int:
        """Size of all weights: the policy's, with its LoRAs, and those that the method keeps beside it."""
        files = (self.folder / WEIGHTS, self.folder / TENSORS)
        return sum(file.stat().st_size for file in files if file.is_file())

    @cached_property
    def normalization(self) -> Normalization:
        """The spaces of the stage."""
        return Normalization.from_json(self._read(NORMALIZATION))

    @cached_property
    def buffer(self) -> Buffer:
        """The episodes kept after the stage."""
        return read_json(Buffer, self.buffer_file)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Frame rate, names of dimensions and cameras that all datasets of the run have in common."""
        schema = self._read("schema.json")
        names = schema.get("names")
        for key, found in (("names", names), ("state_names", schema.get("state_names", names))):
            if not isinstance(found, list) or not found or not all(isinstance(name, str) for name in found):
                raise HoldfastError(f"{self.folder / 'schema.json'}: {key} must be a list of text, got {found!r:.80}.")
        if not isinstance(schema.get("fps"), int | float):
            raise HoldfastError(f"{self.folder / 'schema.json'}: fps must be a number, got {schema.get('fps')!r:.80}.")
        return schema

    @cached_property
    def datasets(self) -> dict[str, Any]:
        """Fingerprints of the datasets that were trained on, by task."""
        return self._read("datasets.json")

    @cached_property
    def config(self) -> dict[str, Any]:
        """The settings of `holdfast train`, including the location of the stream."""
        return self._read("config.json")

    @cached_property
    def policy_config(self) -> dict[str, Any]:
        """LeRobot's config of the policy."""
        return read_config(self.policy / CONFIG)

    @property
    def recorded_weights_hash(self) -> str:
        """SHA-256 of the weights as training recorded it; `weights_hash` also checks the file."""
        return read_manifest(self.folder).get(WEIGHTS, "")

    @cached_property
    def weights_hash(self) -> str:
        """SHA-256 of the weights, which must be the bytes that training wrote."""
        expected = self.recorded_weights_hash
        try:
            found = file_hash(self.folder / WEIGHTS)
        except OSError as error:
            raise HoldfastError(f"Checkpoint {self.folder} cannot be read: {error}.") from None
        if found != expected:
            raise HoldfastError(
                f"Checkpoint {self.folder} is damaged: its weights are not the ones that were written. Run the same "
                "`holdfast train` command again to repair it."
            )
        return found

    def _read(self, name: str) -> dict[str, Any]:
        content = read_content(self.folder / name)
        if not isinstance(content, dict):
            raise HoldfastError(f"{self.folder / name} must hold an object, got {str(content)[:80]!r}.")
        return content


def write_contents(
    folder: Path,
    *,
    normalization: Normalization,
    buffer: Buffer,
    schema: dict[str, Any],
    datasets: dict[str, str],
    config: dict[str, Any],
) -> None:
    """Write what a checkpoint holds beside the policy."""
    for name, content in (
        ("normalization", normalization.to_json()),
        ("buffer", to_json(buffer)),
        ("schema", schema),
        ("datasets", datasets),
        ("config", config),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1))
