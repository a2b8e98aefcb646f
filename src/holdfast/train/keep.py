"""What is kept of a task at the end of its stage, and what is still kept of those before."""

from __future__ import annotations

from dataclasses import replace

from holdfast.data.cache.thumbnails import thumbnails
from holdfast.replay.buffer import Buffer
from holdfast.replay.selection import Candidates, find_selection
from holdfast.train.kept_copies import copy_kept
from holdfast.train.loss_probe import LossProbe
from holdfast.train.setting import Setting
from holdfast.train.stage_data import StageData


def keep_episodes(setting: Setting, data: StageData, buffer: Buffer, probe: LossProbe) -> Buffer:
    """Rank the episodes of the task just learned, and keep the best of them in the buffer.

    Of a task that has come back the same episodes stay.
    """
    config, row = setting.config, data.learning - 1
    if data.lessons[row].task.name in {kept.task for kept in buffer.tasks}:
        return buffer
    learned, selection = data.lessons[row], find_selection(config.replay.selection)
    source = learned.source
    candidates = Candidates(
        learned.task.name,
        config.seed,
        *(source.state, source.action, source.starts, source.ends),
        scores=probe.episode_scores(row) if selection.needs_scores else None,
        thumbnails=thumbnails(data.caches[row], source.starts) if selection.needs_thumbnails else None,
    )
    rises = probe.rises(buffer) if selection.by_rise else None
    buffer = buffer.after_stage(candidates, source.fingerprint, config.replay.selection, rises)
    if config.replay.store == "copy":
        run, stream, embodiment, console = setting.run, setting.stream, setting.embodiment, setting.console
        buffer = copy_kept(run, stream, config, embodiment, console, buffer, learned)
    return buffer


def note_losses(setting: Setting, data: StageData, buffer: Buffer, probe: LossProbe) -> Buffer:
    """Note the losses of the task just learned once more: the method has changed the weights since it was kept.

    Later losses are compared with them, so they must be those of the weights that are saved.
    """
    if not (setting.method.replays and find_selection(setting.config.replay.selection).by_rise):
        return buffer
    *earlier, newest = buffer.tasks
    losses = probe.episode_scores(data.learning - 1, newest.episodes)
    return replace(buffer, tasks=(*earlier, replace(newest, losses=tuple(map(float, losses)))))
