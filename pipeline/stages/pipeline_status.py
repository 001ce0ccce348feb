"""The status of a pipeline, running or not, from its checkpoints and its brokers; Spark is not needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from ..admin import Admin, AdminError, TopicDescription
from .checkpoint_lock import is_locked
from .declaration import PipelineDeclaration, Stage
from .locations import local_path
from .purge import StageConsumer, TopicPurge
from .running_pipeline import PipelineError, check_identity, owner_of, topic_purges
from .spark_checkpoint import CheckpointError, CheckpointFiles, LocalFiles, last_commit, read_planned
from .topic_owner import Owner, read_owner

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class StageStatus:
    """The progress of a stage by its checkpoint. None stands for what cannot be known, as `problem` says."""

    stage: str
    state: str
    """"runs" while a process holds the lock of the checkpoint, else "stopped"; "unknown" for a checkpoint elsewhere."""
    committed: int | None = None
    """The last committed batch; None before the first."""
    committed_at_ms: int | None = None
    planned: int | None = None
    """A batch that is planned and not committed: it is processed, or will be after the next start."""
    lag: int | None = None
    """Records of the stage's topics that no committed batch has; None for a stage that reads no topic."""
    problem: str | None = None


@dataclass(frozen=True)
class TopicStatus:
    """A purged topic. None stands for what cannot be known, as `problem` says."""

    topic: str
    held: int | None = None
    """Records that are there, by their offsets."""
    purged_up_to: Sequence[int] = ()
    """The log start offset of each partition, 0 and following."""
    purgeable: int | None = None
    """Records that every consumer has processed and that are still there."""
    waits_for: Sequence[str] | None = None
    """The consumers that are the last ones in a partition which holds records that they have not processed."""
    owner: str | None = None
    """The pipeline that purges the topic; None before it first ran."""
    problem: str | None = None


@dataclass(frozen=True)
class PipelineStatus:
    pipeline: str
    stages: Sequence[StageStatus]
    topics: Sequence[TopicStatus]


class FilesElsewhere:
    """A checkpoint that only Spark can read. Reading it raises `CheckpointError`."""

    def __init__(self, location: str) -> None:
        self._location = location

    def names(self, folder: str) -> NoReturn:
        raise CheckpointError(f"checkpoint {self._location} is not on this machine: only Spark can read it")

    def read(self, name: str) -> NoReturn:
        self.names("")

    def __str__(self) -> str:
        return self._location


def pipeline_status(pipeline: PipelineDeclaration, admin: Admin) -> PipelineStatus:
    """Look at checkpoints and brokers once. Nothing is changed. Raises `AdminError` if no broker answers."""
    cluster_id = admin.cluster_id()
    described = admin.describe(pipeline.topic_names())
    topics = {name: topic for name, topic in described.items() if topic is not None}
    files = {stage.name: _files(pipeline.checkpoint_of(stage)) for stage in pipeline.stages}
    stages = [
        _stage_status(pipeline, stage, files[stage.name], admin, cluster_id, topics) for stage in pipeline.in_order()
    ]
    this = owner_of(pipeline, [one for one in files.values() if isinstance(one, LocalFiles)])
    purges = {purge.topic: purge for purge in topic_purges(pipeline, admin, topics, files)}
    purged = [
        _topic_status(purges[topic.name], admin, this) if topic.name in purges else _missing(topic.name, admin)
        for topic in pipeline.purged_topics()
    ]
    return PipelineStatus(pipeline.name, stages, purged)


def _files(location: str) -> CheckpointFiles:
    path = local_path(location)
    return FilesElsewhere(location) if path is None else LocalFiles(path)


def _stage_status(
    pipeline: PipelineDeclaration,
    stage: Stage,
    files: CheckpointFiles,
    admin: Admin,
    cluster_id: str,
    topics: Mapping[str, TopicDescription],
) -> StageStatus:
    problems: list[str] = []
    held = is_locked(pipeline.checkpoint_of(stage))
    committed = _known(lambda: last_commit(files), None, problems)
    plan = _known(lambda: read_planned(files), None, problems)
    planned = None if plan is None else plan.batch_id
    for name in stage.topics_read:
        if name not in topics:
            problems.append(f"topic {name!r} is not on {admin.servers}")
    lag = None
    if not problems:
        ids = {name: str(topics[name].topic_id) for name in stage.topics_read}
        _known(lambda: check_identity(stage, files, cluster_id, ids), None, problems)
    if stage.topics_read and not problems:
        lag = _known(lambda: _lag(stage, files, admin, topics), None, problems)
    if isinstance(files, LocalFiles) and not files.path.is_dir():
        problems.append(f"there is no checkpoint {files}")
    return StageStatus(
        stage.name,
        {True: "runs", False: "stopped", None: "unknown"}[held],
        committed,
        _committed_at_ms(files, committed),
        planned if planned is not None and (committed is None or planned > committed) else None,
        lag,
        _one(problems),
    )


def _lag(stage: Stage, files: CheckpointFiles, admin: Admin, topics: Mapping[str, TopicDescription]) -> int | None:
    """Records between the last commit and the ends of the stage's topics. Before a first commit they are those that are
    there; None where the stage does not begin with these (startingOffsets)."""
    consumer = StageConsumer(stage.name, files)
    lag = 0
    for topic in stage.topics_read:
        count = len(topics[topic].partitions)
        processed, starts = consumer.processed(topic), admin.start_offsets(topic, count)
        if stage.source_option("startingOffsets") is not None and not starts.keys() <= processed.keys():
            return None
        ends = admin.end_offsets(topic, count)
        lag += sum(max(0, end - processed.get(number, starts[number])) for number, end in ends.items())
    return lag


def _committed_at_ms(files: CheckpointFiles, batch_id: int | None) -> int | None:
    if batch_id is None or not isinstance(files, LocalFiles):
        return None
    try:
        return (files.path / "commits" / str(batch_id)).stat().st_mtime_ns // 1_000_000
    except OSError:  # Spark deletes old commits
        return None


def _topic_status(purge: TopicPurge, admin: Admin, this: Owner) -> TopicStatus:
    problems: list[str] = []
    ends = admin.end_offsets(purge.topic, len(purge.partitions))
    purgeable, waits_for = _known(lambda: _kept(purge, ends), (None, None), problems)
    owner = _known(lambda: read_owner(admin, purge.topic), None, problems)
    if owner is not None and not owner.is_same(this):
        problems.append("another pipeline purges it")
    return TopicStatus(
        purge.topic,
        max(0, purge.held(ends)),
        [purge.low_watermarks[number] for number in purge.partitions],
        purgeable,
        waits_for,
        None if owner is None else str(owner),
        _one(problems),
    )


def _kept(purge: TopicPurge, ends: Mapping[int, int]) -> tuple[int, list[str]]:
    """The number of records that could be purged, and the consumers that keep the others before these ends."""
    offsets = purge.purgeable()
    purgeable = sum(max(0, offset - purge.low_watermarks[number]) for number, offset in offsets.items())
    return purgeable, purge.kept_by(ends)


def _missing(topic: str, admin: Admin) -> TopicStatus:
    return TopicStatus(topic, problem=f"topic {topic!r} is not on {admin.servers}")


def _known(look: Callable[[], T], otherwise: U, problems: list[str]) -> T | U:
    """What `look` returns; `otherwise` if it cannot be known, and the reason is added to the problems."""
    try:
        return look()
    except (AdminError, CheckpointError, OSError, PipelineError) as error:
        problems.append(str(error))
        return otherwise


def _one(problems: Sequence[str]) -> str | None:
    return "; ".join(dict.fromkeys(problems)) or None
