"""Every reader of files and messages from outside: one line each in `READERS`."""

import contextlib
import gzip
import hashlib
import io
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from fuzz import samples

from holdfast.core.errors import HoldfastError

type Get = Callable[[str], object]  # a fixture by its name


@dataclass(frozen=True)
class Reader:
    """`make` writes a valid file into a folder and returns it. `seal` renews hashes, so that changes get past them."""

    name: str
    make: Callable[[Path, Get], Path]
    read: Callable[[Path], object]
    seal: Callable[[Path], None] = lambda file: None


def written(name: str, content: object) -> Callable[[Path, Get], Path]:
    """Makes a file with this text, or with this JSON."""

    def make(folder: Path, get: Get) -> Path:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return file

    return make


def copied(fixture: str, name: str) -> Callable[[Path, Get], Path]:
    """Makes a copy of a fixture's folder, and takes a file in it; `*` stands for any name."""

    def make(folder: Path, get: Get) -> Path:
        shutil.copytree(get(fixture), folder / fixture, symlinks=True)
        return sorted((folder / fixture).glob(name))[0]

    return make


# --- holdfast metrics, streams, robots


def metrics(*flags: str) -> Callable[[Path], None]:
    def read(file: Path) -> None:
        from holdfast.commands.metrics import main

        with contextlib.redirect_stdout(io.StringIO()) as said:
            main([str(file), *flags])
        if flags:
            json.loads(said.getvalue(), parse_constant=lambda name: pytest_fail(name))

    return read


def pytest_fail(name: str) -> None:
    raise AssertionError(f"the output is not JSON: {name}")


def stream(file: Path) -> object:
    from holdfast import catalog

    return catalog.load_stream(str(file))


def robot(file: Path) -> object:
    from holdfast import embodiments

    return embodiments.load(str(file))


@contextlib.contextmanager
def ending_with(message: str) -> Iterator[None]:
    """For samples that are good up to a point: the error that then comes does not count."""
    try:
        yield
    except HoldfastError as error:
        if message not in str(error):
            raise


def arms(file: Path) -> None:
    from holdfast.robots.lerobot_robot import PiperRobot

    no_arms = patch("holdfast.robots.piper.PiperPair", side_effect=ImportError("no arms in a test"))
    with no_arms, ending_with("no arms in a test"):
        PiperRobot(file)


# --- run folders


def report(depth: int) -> Callable[[Path], object]:
    """Reads the run that a file belongs to; its folder is so many levels up."""

    def read(file: Path) -> object:
        from holdfast.report.gather import gather
        from holdfast.report.summary import summary

        return summary(gather([file.parents[depth]]))

    return read


def settings(file: Path) -> None:
    from holdfast.runs.settings import settle_settings

    settle_settings(file, samples.RUN["config"], samples.RUN["tasks"])


def stored_robot(file: Path) -> object:
    from holdfast.runs.embodiment import read_embodiment

    return read_embodiment(file)


def own_method(file: Path) -> object:
    from holdfast.runs.own_files import arrangement_of
    from holdfast.runs.paths import RunPaths

    return arrangement_of(RunPaths(file.parent), "my_methods.py:Mine")


def own_selection(file: Path) -> object:
    from holdfast.runs.own_files import settle_selection
    from holdfast.runs.paths import RunPaths

    (file.parent / "choosing.py").write_text("")
    return settle_selection(RunPaths(file.parent), f"{file.parent}/choosing.py:shortest")


def seal_robot(file: Path) -> None:
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        content = json.loads(file.read_bytes())
        text = json.dumps(content["embodiment"], sort_keys=True)
        content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        file.write_text(json.dumps(content))


def frame_formats(file: Path) -> object:
    from holdfast.runs.folder import RunFolder

    return RunFolder(file.parent, print).frame_format("reach", "auto")


def resumed_log(file: Path) -> None:
    from holdfast.runs.paths import StagePaths
    from holdfast.train.log import LogConfig, MetricsLog

    MetricsLog(StagePaths(file.parent), LogConfig(), "run", "reach", 40).close()


def norm_stats(file: Path) -> object:
    from holdfast.norm.released import read_norm_stats

    return read_norm_stats(file, 2)


def released_buffer(file: Path) -> object:
    from holdfast.replay.released import read_episodes

    return read_episodes(file, [0, 10, 25], [10, 25, 30])


def buffer(file: Path) -> object:
    from holdfast.replay.store import read_buffer

    return read_buffer(file)


def exported(file: Path) -> None:
    from holdfast.commands.export import main

    with ending_with("keeps no episode"):
        main(["buffer", str(file.parents[3]), "--output", str(file.parents[3] / "kept")])


def method_state(file: Path) -> object:
    from holdfast.methods.state import read_state

    return read_state(file.parent, {"w": (2,)}, "cpu")


def recording_notes(file: Path) -> object:
    from holdfast.arenas.recording_shards import read_notes

    return read_notes(file.parents[1])


def recording_order(file: Path) -> None:
    from holdfast.arenas.demonstrate import RecordingOrder
    from holdfast.arenas.record import Work

    shutil.rmtree(file.parent / "frames", ignore_errors=True)
    Work(RecordingOrder(**samples.ORDER), file.parent, file.parent / "final").begin()


def packed_evidence(folder: Path, get: Get) -> Path:
    from holdfast.studies import Study
    from holdfast.studies.evidence import gather_evidence
    from holdfast.studies.evidence_file import SUFFIX, write_evidence
    from holdfast.studies.jobs import StudyFolder

    shutil.copytree(get("run"), folder / "runs" / "steps=400-42")
    study = Study("mini", {"stream": "single_arm"}, seeds=(42,), grids=({"steps": [400, 800]},))
    return write_evidence(gather_evidence(study, StudyFolder(folder)), folder / f"mini{SUFFIX}")


def unpacked_evidence(folder: Path, get: Get) -> Path:
    """The JSON inside a file of evidence; `pack_again` makes evidence of it."""
    file = packed_evidence(folder, get)
    file.write_bytes(gzip.decompress(file.read_bytes()))
    return file


def pack_again(file: Path) -> None:
    file.write_bytes(gzip.compress(file.read_bytes(), compresslevel=1))


def evidence(file: Path) -> object:
    from holdfast.report.gather import with_baselines
    from holdfast.report.summary import summary
    from holdfast.studies.evidence_file import read_evidence
    from holdfast.studies.results import evidence_results

    results = evidence_results(read_evidence(file), file)
    return summary(with_baselines([run for group in results.groups for run in group.runs.values()]))


def study(file: Path) -> object:
    from holdfast.commands.study_evidence import find_study

    return find_study(str(file if file.suffix == ".toml" else file.parent), None)[0].runs()


# --- checkpoints, bundles, deployments


def seal_folder(levels: int) -> Callable[[Path], None]:
    """Writes the manifest of the folder so many levels up anew."""

    def seal(file: Path) -> None:
        from holdfast.core.checked_folder import MANIFEST, file_hash

        folder = file.parents[levels]
        files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
        hashes = {p.relative_to(folder).as_posix(): file_hash(p) for p in files}
        (folder / MANIFEST).write_text(json.dumps(hashes, indent=1))

    return seal


def seal_spaces(file: Path) -> None:
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError, AttributeError):
        content = json.loads(file.read_bytes())
        body = {k: v for k, v in content.items() if k != "hash"}
        text = json.dumps([body, list(body["measured"])], sort_keys=True)
        file.write_text(json.dumps({**body, "hash": hashlib.sha256(text.encode()).hexdigest()}))
    seal_folder(0)(file)


def spaces(file: Path) -> object:
    from holdfast.runs.checkpoint import Checkpoint

    return Checkpoint(file.parent).normalization


def verified(file: Path) -> object:
    from holdfast.core.checked_folder import verify

    return verify(file.parent)


def bundled(levels: int) -> Callable[[Path], object]:
    """Packs the stage that a file belongs to; its run is so many levels up."""

    def read(file: Path) -> object:
        from holdfast.serve.new_bundle import make

        shutil.rmtree(file.parents[levels] / "new", ignore_errors=True)
        return make(file.parents[levels], 1, file.parents[levels] / "new")

    return read


def bundle(file: Path) -> object:
    from holdfast.serve.bundle import load

    return load(file.parent)


def policy(levels: int) -> Callable[[Path], object]:
    def read(file: Path) -> object:
        from holdfast.embodiments import EMBODIMENTS
        from holdfast.policies.pilot import Pilot

        return Pilot(file.parents[levels], EMBODIMENTS["piper_x_pair"].names)

    return read


def policy_dimensions(file: Path) -> object:
    from holdfast.policies.config import PolicyChoice
    from holdfast.policies.known_types import fixed_dimensions

    return fixed_dimensions(PolicyChoice(path=str(file.parent)))


def study_rates(file: Path) -> None:
    from holdfast.studies.estimate import rates
    from holdfast.studies.jobs import StudyFolder

    rates(StudyFolder(file.parent))


def progress_state(file: Path) -> None:
    from holdfast.core.progress import read_state

    read_state(file)


def rolled_back(file: Path) -> None:
    from holdfast.serve.deploy import rollback

    folder = file.parent
    newest = json.loads(samples.HISTORY.splitlines()[-1])["stack"][-1]
    (folder / "current").unlink(missing_ok=True)
    (folder / "current").symlink_to(newest[:12])
    with ending_with("there is no such folder"):
        rollback(folder)


def training_state(file: Path) -> None:
    from holdfast.train.config import OptimConfig
    from holdfast.train.state import TrainingState

    TrainingState(samples.tiny_policy(), OptimConfig()).load(file.parent, 10)


# --- trials, scoring, messages


def rollouts(file: Path) -> object:
    from holdfast.console.attempts import RunAttempts
    from holdfast.console.tickets import TicketKey
    from holdfast.runs.run import read_run

    return RunAttempts(read_run(file.parents[2]), TicketKey("")).rollouts()


def imported_csv(file: Path) -> object:
    from holdfast.console.exchange import read
    from holdfast.runs.run import read_run

    for old in file.parent.glob("trials.sqlite*"):
        old.unlink()
    return read([read_run(file.parent)], file)


def scores_from_elsewhere(file: Path) -> object:
    from holdfast.console.elsewhere import Origin, read_scores
    from holdfast.runs.run import read_run

    for old in file.parent.glob("trials.sqlite*"):
        old.unlink()
    return read_scores([read_run(file.parent)], file, Origin(stage=1) if file.suffix == ".json" else Origin())


def database(kind: str) -> Callable[[Path], None]:
    """Opens the file as trials or as sheets and reads all rows."""

    def read(file: Path) -> None:
        from holdfast.console.sheets import Sheets
        from holdfast.runs.sources import matrix_of
        from holdfast.runs.trials import Trials

        for old in (*file.parent.glob("*-wal"), *file.parent.glob("*-shm")):
            old.unlink(missing_ok=True)
        if kind == "trials":
            with Trials(file) as trials:
                matrix_of(samples.NAMES, trials.counted())
        else:
            with Sheets(file) as sheets:
                [(sheet.milestones, sheet.penalties, sheet.times, sheet.stands) for sheet in sheets.all()]

    return read


def stored_row(kind: str) -> Callable[[Path], None]:
    """Puts the values of a JSON object into the first row of a database, whatever they are, and reads it."""

    def read(file: Path) -> None:
        from holdfast.console.sheets import Sheets
        from holdfast.runs.trials import Trials

        values = samples.row(file, samples.TRIAL if kind == "trials" else samples.EVENT)
        for old in file.parent.glob("file.sqlite*"):
            old.unlink()
        target = file.with_name("file.sqlite")
        (Trials if kind == "trials" else Sheets)(target).close()
        with contextlib.closing(sqlite3.connect(target)) as stored:
            table, names = "trials" if kind == "trials" else "events", ", ".join(f'"{name}"' for name in values)
            try:
                marks = ", ".join("?" * len(values))
                stored.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(values.values()))
                stored.commit()
            except (sqlite3.Error, OverflowError, UnicodeError):
                return  # the database itself refuses it
        database(kind)(target)

    return read


def message(file: Path) -> object:
    from holdfast.core.wire import unpack

    return unpack(file.read_bytes())


def packed_message(folder: Path, get: Get) -> Path:
    import numpy as np

    from holdfast.core.wire import pack

    question = {"state": np.zeros(3), "prompt": "reach", "images": {"a": np.zeros((2, 2, 3))}}
    (folder / "message").write_bytes(pack(question))
    return folder / "message"


def arena_file(file: Path) -> object:
    from holdfast.arenas.arena_file import read_arena_file

    return read_arena_file(file)


def worker_answer(question: str) -> Callable[[Path], object]:
    """What a simulator's process answers to `hello`, or to everything else."""

    def read(file: Path) -> object:
        from holdfast.arenas import worker_messages as messages
        from holdfast.core.wire import unpack

        answer = unpack(file.read_bytes())
        if question == "hello":
            return messages.read_description(answer)
        description = messages.read_description(samples.DESCRIPTION)
        messages.read_moment(answer, description, "touch")
        messages.read_images(answer, ("top",), (2, 2))
        messages.read_action(answer, ("x", "y"))
        return messages.read_picture(answer)

    return read


def packed_answer(folder: Path, get: Get) -> Path:
    import numpy as np

    from holdfast.core.wire import pack

    image, numbers = np.zeros((2, 2, 3), np.uint8), np.zeros(2)
    answer = {"state": numbers, "success": True, "milestones": ["near"], "over": False, "action": numbers}
    (folder / "answer").write_bytes(pack({**answer, "images": {"top": image}, "picture": image}))
    return folder / "answer"


def packed_description(folder: Path, get: Get) -> Path:
    from holdfast.core.wire import pack

    (folder / "description").write_bytes(pack(samples.DESCRIPTION))
    return folder / "description"


# --- datasets and caches


def dataset(levels: int) -> Callable[[Path], object]:
    def read(file: Path) -> object:
        from holdfast.data.lerobot.source import open_source

        return open_source(str(file.parents[levels]))

    return read


def instructions(file: Path) -> object:
    """The episodes of a dataset by their instruction."""
    from holdfast.data.lerobot.instructions import episodes_by_instruction
    from holdfast.data.lerobot.source import open_source

    return episodes_by_instruction(open_source(str(next(root for root in file.parents if (root / "meta").is_dir()))))


def convertible(file: Path) -> None:
    from holdfast.data.lerobot.convert import check_convertible

    check_convertible(file.parents[1])


def caches(file: Path) -> object:
    from holdfast.data.cache.listing import list_caches

    return list_caches(file.parents[1])


CHECKPOINT = "stages/01-*/checkpoint"
READERS = [
    Reader("scores.json", written("scores.json", samples.SCORES), metrics("--json")),
    Reader("metrics.json", written("metrics.json", samples.REPORTED), metrics()),
    Reader("scores.csv", written("scores.csv", samples.SCORES_CSV), metrics()),
    Reader("stream", written("stream.toml", samples.STREAM), stream),
    Reader("robot", written("robot.toml", samples.ROBOT), robot),
    Reader("pair of arms", written("pair.toml", samples.PAIR), arms),
    Reader("run.yaml", copied("run", "run.yaml"), report(0)),
    Reader("run.yaml on restart", written("run.yaml", samples.RUN), settings),
    Reader("audit.jsonl", copied("run", "audit.jsonl"), report(0)),
    Reader("metrics.jsonl", copied("run", "stages/02-*/metrics.jsonl"), report(2)),
    Reader("metrics.jsonl on restart", copied("run", "stages/02-*/metrics.jsonl"), resumed_log),
    Reader("heldout.json", copied("run", "heldout.json"), report(0)),
    Reader("embodiment.json", written("embodiment.json", samples.STORED_ROBOT), stored_robot, seal_robot),
    Reader("method.json", written("method.json", samples.OWN_METHOD), own_method),
    Reader("selection.json", written("selection.json", samples.OWN_SELECTION), own_selection),
    Reader("frames.json", written("frames.json", {"reach": "jpeg"}), frame_formats),
    Reader("study.toml", written("study.toml", samples.STUDY), study),
    Reader("study.json", written("study.json", samples.STORED_STUDY), study),
    Reader("evidence of a study", packed_evidence, evidence),
    Reader("evidence of a study, unpacked", unpacked_evidence, evidence, pack_again),
    Reader("norm_stats.json", written("norm_stats.json", samples.NORM_STATS), norm_stats),
    Reader("task1_buffer.json", written("task1_buffer.json", samples.RELEASED_BUFFER), released_buffer),
    Reader("buffer.json", written("buffer.json", samples.BUFFER), buffer),
    Reader("config.json on export", samples.exportable, exported),
    Reader("method.json", samples.method_values, method_state),
    Reader("method.safetensors", samples.method_tensors, method_state),
    Reader("recording.json", written("meta/recording.json", samples.NOTES), recording_notes),
    Reader("order.json", written("order.json", samples.ORDER), recording_order),
    Reader("normalization.json", copied("trained", f"{CHECKPOINT}/normalization.json"), spaces, seal_spaces),
    Reader("checkpoint's manifest.json", copied("trained", f"{CHECKPOINT}/manifest.json"), verified),
    Reader("schema.json", copied("trained", f"{CHECKPOINT}/schema.json"), bundled(3), seal_folder(0)),
    Reader("checkpoint's config.json", copied("trained", f"{CHECKPOINT}/config.json"), bundled(3), seal_folder(0)),
    Reader("policy's config.json", copied("trained", f"{CHECKPOINT}/policy/config.json"), bundled(4), seal_folder(1)),
    Reader("config.json of a policy to start from", written("config.json", samples.POLICY), policy_dimensions),
    Reader("manifest.json", copied("bundle", "manifest.json"), bundle),
    Reader("bundle.json", copied("bundle", "bundle.json"), bundle, seal_folder(0)),
    Reader("bundle's normalization", copied("bundle", "normalization.json"), bundle, seal_spaces),
    Reader("policy/config.json", copied("bundle", "policy/config.json"), policy(1), seal_folder(1)),
    Reader("policy/model.safetensors", copied("bundle", "policy/model.safetensors"), policy(1), seal_folder(1)),
    Reader("history.jsonl", written("history.jsonl", samples.HISTORY), rolled_back),
    Reader("jobs.jsonl", written("jobs.jsonl", samples.JOBS), study_rates),
    Reader("progress of a command", written("train.progress", samples.PROGRESS), progress_state),
    Reader("state.json", samples.progress("state.json"), training_state),
    Reader("training.safetensors", samples.progress("training.safetensors"), training_state),
    Reader("rollout.json", copied("filmed", "rollouts/0000/rollout.json"), rollouts),
    Reader("trials as CSV", samples.run_with("trials.csv", samples.TRIALS_CSV), imported_csv),
    Reader("scores as CSV", samples.run_with("table.csv", samples.PLAIN_SCORES), scores_from_elsewhere),
    Reader("eval_info.json", samples.run_with("eval_info.json", samples.EVAL_INFO), scores_from_elsewhere),
    Reader("trials.sqlite", copied("run", "trials.sqlite"), database("trials")),
    Reader("a row of trials.sqlite", written("row.json", samples.TRIAL), stored_row("trials")),
    Reader("scoring.sqlite", samples.sheets, database("sheets")),
    Reader("a row of scoring.sqlite", written("row.json", samples.EVENT), stored_row("sheets")),
    Reader("message", packed_message, message),
    Reader("arena's file", written("arena.toml", samples.ARENA), arena_file),
    Reader("worker's description", packed_description, worker_answer("hello")),
    Reader("worker's answer", packed_answer, worker_answer("step")),
    Reader("info.json", copied("data", "meta/info.json"), dataset(1)),
    Reader("episodes.parquet", copied("data", "meta/episodes/*/*.parquet"), dataset(3)),
    Reader("data.parquet", copied("data", "data/*/*.parquet"), dataset(2)),
    Reader("tasks.parquet", copied("data", "meta/tasks.parquet"), instructions),
    Reader("data.parquet, by instruction", copied("data", "data/*/*.parquet"), instructions),
    Reader("info.json of v2.1", written("meta/info.json", samples.HEADER), convertible),
    Reader("cache.json", written("key/cache.json", samples.CACHE), caches),
]
