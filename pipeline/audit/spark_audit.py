"""The same audit on Spark: the same functions, with files and buckets spread over executors.

Two jobs run. The first reads the headers of the files of compacted topics; from them the driver makes the context of
each log, which is small. The second reads each file once: its map step gives blocks of facts by log and bucket, a
shuffle brings the blocks of a bucket together, and its reduce step gives a tally, which the driver adds up.

A block of facts crosses the shuffle as one value of some hundred KB in Arrow's format; an executor holds the facts of
one bucket. (Spark's own `mapInArrow` and `applyInArrow` would need pandas, and would pass every fact to Java and back.)
All executors must see the directory at the same path.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..logs.log_dir import LogDir
from .audit_plan import BUCKET_ROWS, LogContext, Scope, SegmentTask, context_of, plan_audit
from .buckets import divided
from .local_audit import is_read, report_of
from .report import AuditReport
from .segment_facts import map_segment
from .segment_headers import FileHeaders, read_headers
from .supersession import FACTS, reduce
from .tally import Tally
from .topic_policy import TopicPolicy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 256 << 20
"""Bytes of files that one task reads. A larger file is one task."""

BLOCK_ROWS = 1 << 16
"""Facts of one bucket that are collected before they cross the shuffle together."""
HELD_ROWS = 1 << 20
"""Facts of all buckets of one file that may wait for the shuffle."""

Block = tuple[tuple[int, int], bytes]
"""(log, bucket) and a stream of facts in Arrow's format. Bucket -1 holds the tallies of the map step."""
_NO_BUCKET = -1


def audit_on_spark(
    spark: SparkSession,
    log_dir: LogDir,
    scope: Scope,
    policies: Mapping[str, TopicPolicy],
    *,
    default: TopicPolicy | None = None,
    topics: Collection[tuple[str, Collection[int] | None]] = (),
    bucket_rows: int = BUCKET_ROWS,
) -> AuditReport:
    """Do `local_audit.audit_directory` on Spark, with the same result. A log whose files disappear meanwhile is not
    audited again."""
    began = perf_counter()
    scope = scope.with_secret()
    plans = plan_audit(log_dir, policies, default or TopicPolicy(), topics)
    context = spark.sparkContext
    cores = context.defaultParallelism
    compared = [file for plan in plans if plan.is_compared for file in plan.live_files]
    headers = dict(context.parallelize(compared, _tasks(compared, cores)).mapPartitions(_headers_of).collect())
    contexts = {plan.number: context_of(plan, headers, scope.now_ms, bucket_rows=bucket_rows) for plan in plans}
    files = [file for plan in plans if is_read(plan, scope) for file in plan.files]
    known = context.broadcast((contexts, scope))
    buckets = sum(contexts[plan.number].buckets for plan in plans if is_read(plan, scope))

    def map_files(tasks: Iterable[SegmentTask]) -> Iterator[Block]:
        return map_blocks(tasks, *known.value)

    def reduce_bucket(block: tuple[tuple[int, int], Iterable[bytes]]) -> tuple[int, Tally]:
        (folder, bucket), parts = block
        return folder, reduce_blocks(bucket, parts, known.value[0][folder], known.value[1])

    tallies = {plan.number: Tally() for plan in plans}
    if files:
        blocks = context.parallelize(files, _tasks(files, cores)).mapPartitions(map_files)
        # Each task reduces a few buckets; Spark holds their packed blocks until then.
        found = blocks.groupByKey(max(min(buckets, max(8 * cores, buckets // 4)), 1)).map(reduce_bucket)
        for folder, tally in found.collect():
            tallies[folder].add(tally)
    known.unpersist()
    for tally in tallies.values():
        tally.sort()
    results = {plan.number: (contexts[plan.number], headers, tallies[plan.number]) for plan in plans}
    return report_of(log_dir, scope, plans, results, "spark", perf_counter() - began)


def _tasks(files: list[SegmentTask], cores: int) -> int:
    """The number of tasks for these files."""
    return max(min(len(files), max(sum(file.size_bytes for file in files) // TASK_BYTES, cores)), 1)


def _headers_of(files: Iterable[SegmentTask]) -> Iterator[tuple[int, FileHeaders]]:
    for file in files:
        try:
            yield file.number, read_headers(file.path, file.base_offset)
        except OSError:
            continue  # the map step reports it


def map_blocks(files: Iterable[SegmentTask], contexts: Mapping[int, LogContext], scope: Scope) -> Iterator[Block]:
    """Run the map step over some files; yield blocks of facts and a tally of each file."""
    for file in files:
        context, tally = contexts[file.folder], Tally()
        held: dict[int, list[pa.RecordBatch]] = {}
        counts: Counter[int] = Counter()
        for facts in map_segment(file, context, scope, tally):
            for bucket, part in divided(facts, context.buckets):
                held.setdefault(bucket, []).append(part)
                counts[bucket] += part.num_rows
            full = [*held] if counts.total() >= HELD_ROWS else [each for each in held if counts[each] >= BLOCK_ROWS]
            for bucket in full:
                yield (file.folder, bucket), _packed(held.pop(bucket))
                del counts[bucket]
        for bucket, parts in held.items():
            yield (file.folder, bucket), _packed(parts)
        yield (file.folder, _NO_BUCKET), pickle.dumps(tally)


def reduce_blocks(bucket: int, blocks: Iterable[bytes], context: LogContext, scope: Scope) -> Tally:
    """Run the reduce step over all blocks of a bucket, in any order."""
    if bucket == _NO_BUCKET:
        whole = Tally()
        for block in blocks:
            whole.add(pickle.loads(block))
        return whole
    tables = [_unpacked(block) for block in blocks]
    tables.sort(key=lambda table: (table.column("file")[0].as_py(), table.column("offset")[0].as_py()))
    return reduce(pa.concat_tables(tables), context, scope)


def _packed(parts: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches(parts, FACTS)
    with pa.ipc.new_stream(sink, FACTS, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unpacked(block: Any) -> pa.Table:
    with pa.ipc.open_stream(block) as stream:
        return stream.read_all()
