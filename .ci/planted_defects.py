"""Plant defects in a copy of the tree, one at a time, and see whether the tests that guard the rule catch each of them.

    .venv/bin/python .ci/planted_defects.py               # first the tests without any defect, then every defect
    .venv/bin/python .ci/planted_defects.py NAME …        # only these defects
    .venv/bin/python .ci/planted_defects.py --list        # where each defect goes; no test runs
    .venv/bin/python .ci/planted_defects.py --wide NAME   # with all tests below the folders of the named tests
    .venv/bin/python .ci/planted_defects.py --simulate 1-200 NAME …  # the first simulated history that breaks a promise

Each defect is a change of one or two lines that a careless maintainer could make. The tool finds the place by a piece
of code, not by a path, because modules move: the piece occurs exactly once in the folders of `SEARCHED`, or once in the
modules of the file name given beside it. Where that is not so the tool stops and says which piece it is: give the table
the new piece. The exit status is 0 when every defect is caught. Each defect takes about five seconds, most of them the
start of pytest; a defect that makes a test wait takes as long as that test waits.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).resolve().parent.parent
SEARCHED = tuple(sorted(init.parent.name for init in TREE.glob("*/__init__.py")))
TIMEOUT_S = 600
"""A defect may make a test wait for ever; after this time it counts as caught."""


class Defect(NamedTuple):
    """One careless change, and the tests that are to catch it."""

    name: str
    rule: str
    """What no longer holds."""
    file_name: str
    """The base name of the module; it decides only where the piece of code occurs more than once."""
    code: str
    """Any run of white space in it stands for any other."""
    planted: str
    tests: tuple[str, ...]


class CannotPlant(Exception):
    """The tree no longer has the place that a defect is for. The message says which."""


DEFECTS = (
    Defect(
        "acks_all_is_answered_one_record_early",
        "A produce request with acks=all waits until the high watermark is beyond its last record.",
        "appending.py",
        "return partition.log.high_watermark > self._last_offset",
        "return partition.log.high_watermark >= self._last_offset",
        ("tests/broker/test_appending.py", "tests/broker/replication/test_cluster_replicas.py"),
    ),
    Defect(
        "leader_epochs_outlive_truncation",
        "A log that is truncated forgets the leader epochs that began in what is gone.",
        "log.py",
        "self.leader_epochs.truncate_from_end(offset) self.producers.load(",
        "self.producers.load(",
        ("tests/storage/test_log.py",),
    ),
    Defect(
        "truncation_leaves_the_last_stable_offset_behind",
        "A log that is truncated above its high watermark keeps its last stable offset.",
        "log.py",
        "self.producers.on_high_watermark(self.high_watermark) return True",
        "return True",
        ("tests/storage/test_aborted_transactions.py",),
    ),
    Defect(
        "compaction_forgets_the_last_sequence_of_a_producer",
        "The header of an active producer's last batch survives cleaning, for its sequence number.",
        "clean.py",
        "sorted({*self._last_data_offsets(), self._last_cleanable_offset})",
        "sorted({self._last_cleanable_offset})",
        ("tests/storage/cleaner/test_clean.py",),
    ),
    Defect(
        "deletion_is_answered_before_its_checkpoint",
        "DeleteRecords is answered after the new log start offset is in its checkpoint.",
        "delete_records.py",
        "if any(deletion.error is None for deletion in deletions):",
        "if not deletions:",
        ("tests/crash/test_delete_records.py", "tests/kips/test_kip_107_delete_records.py"),
    ),
    Defect(
        "generation_begins_again_after_a_restart",
        "A group that is loaded goes on with the generation that was stored.",
        "group.py",
        "group.generation_id = stored.generation_id",
        "group.generation_id = 0",
        ("tests/broker/groups/test_group_coordinator.py",),
    ),
    Defect(
        "time_out_does_not_fence_the_producer",
        "The coordinator that aborts a transaction on its own raises the producer epoch first.",
        "producer_epochs.py",
        "epoch = min(transaction.entry.producer_epoch + 1, MAX_EPOCH)",
        "epoch = min(transaction.entry.producer_epoch, MAX_EPOCH)",
        ("tests/broker/transactions/test_transaction_coordinator.py",),
    ),
    Defect(
        "isr_shrinks_without_the_lag_time",
        "A follower leaves the replicas in sync only after replica.lag.time.max.ms without catching up.",
        "in_sync_replicas.py",
        "return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms",
        "return self.log_end_offset == leader_end_offset",
        ("tests/broker/replication/test_in_sync_replicas.py", "tests/broker/replication/test_cluster_replicas.py"),
    ),
    Defect(
        "fetch_session_keeps_partitions_forgotten_by_topic_id",
        "A fetch session forgets partitions that a request names by topic id, too.",
        "fetch_sessions.py",
        "self._wanted.pop((forgotten.topic, forgotten.topic_id, number), None)",
        "self._wanted.pop((forgotten.topic, bytes(16), number), None)",
        ("tests/broker/replication/test_fetch_sessions.py",),
    ),
    Defect(
        "retention_by_size_deletes_one_segment_more",
        "Retention by size leaves at least retention.bytes in the log.",
        "retention.py",
        "return excess >= 0",
        "return excess > -segment.size",
        ("tests/storage/test_retention.py",),
    ),
    Defect(
        "sequences_do_not_wrap",
        "The sequence number after 2^31-1 is 0.",
        "producer_state_manager.py",
        "expected = increment_sequence(known.last_sequence, 1)",
        "expected = known.last_sequence + 1",
        ("tests/storage/producers/test_producer_state_manager.py",),
    ),
    Defect(
        "checkpoint_says_more_than_a_truncation_leaves",
        "The recovery point is lowered in the checkpoint before a log is truncated below it.",
        "log_cleaner.py",
        "if partition_log is not None and partition_log.lower_recovery_point(offset):",
        "if False:",
        ("tests/broker/test_log_cleaner.py",),
    ),
    Defect(
        "deletion_is_done_once_the_cluster_stops",
        "While the cluster stops, a deletion is answered only if every replica in sync has followed.",
        "partition.py",
        "or replica.node_id in self.state.isr",
        "or False",
        ("tests/broker/replication/test_partition.py",),
    ),
    Defect(
        "leader_is_told_of_a_log_start_that_no_checkpoint_has",
        "A follower whose checkpoint of log start offsets failed fetches no more before it is written.",
        "fetcher.py",
        "if log_starts.has_failed:",
        "if False:",
        ("tests/broker/replication/test_fetcher.py",),
    ),
    Defect(
        "empty_log_of_a_partition_that_others_have_stays",
        "A start puts away the empty log of a partition that the topic does not have, or that others have.",
        "startup_reconciliation.py",
        "return not partition_log.size_bytes and topic_id in (topic.id, ZERO_UUID)",
        "return False",
        ("tests/broker/replication/test_startup_reconciliation.py",),
    ),
    Defect(
        "share_state_write_overtakes_another",
        "Changes of a share partition are stored in their order, also where a write is tried again.",
        "share_partition_manager.py",
        "async with self._state_lock: if self._is_closed:",
        "if True:\n                if self._is_closed:",
        ("tests/broker/share_fetch/test_share_partition_manager.py",),
    ),
    Defect(
        "cut_off_leader_appends_to_a_deleted_topic",
        "A Produce by topic id is refused by a leader that has the log of an earlier topic of that name.",
        "produce.py",
        "elif version >= TOPIC_IDS_SINCE:",
        "elif False:",
        ("tests/broker/test_local_cluster.py",),
    ),
    Defect(
        "share_state_goes_below_a_snapshot_that_is_not_replicated",
        "The coordinator of share groups deletes records below a snapshot that is below the high watermark.",
        "share_coordinator.py",
        "if partition.log.log_start_offset < first < partition.log.high_watermark:",
        "if partition.log.log_start_offset < first <= partition.log.high_watermark:",
        ("tests/broker/share_fetch/test_share_failover.py",),
    ),
    Defect(
        "marker_counts_before_it_is_replicated",
        "The last stable offset passes a transaction only once its marker is below the high watermark.",
        "producer_state_manager.py",
        "return unreplicated if first is None else min(first, unreplicated)",
        "return first",
        ("tests/storage/producers/test_producer_state_manager.py",),
    ),
    Defect(
        "aborted_transaction_is_indexed_with_a_last_stable_offset_too_high",
        "The transaction index keeps, with each aborted transaction, the first offset that is still open then.",
        "producer_state_manager.py",
        "if producer_id != transaction.producer_id:",
        "if producer_id != transaction.producer_id and first_offset > transaction.first_offset:",
        ("tests/storage/producers/test_producer_state_manager.py", "tests/storage/test_aborted_transactions.py"),
    ),
    Defect(
        "fetch_of_an_earlier_life_counts",
        "A fetch that a broker has sent before it was started again does not say what it has (KIP-903).",
        "fetch.py",
        "if reader.replica_epoch in (-1, context.services.controller.broker_epoch(reader.replica_id)):",
        "if True:",
        ("tests/broker/replication/test_cluster_replicas.py", "tests/simulation/test_histories.py"),
    ),
    Defect(
        "recovery_takes_lost_batches_for_compacted_ones",
        "A segment that ends before the next one, where no pass of the cleaner was, has lost records in a power loss.",
        "recovery.py",
        "if cut or (later and self._misses_records(segment, row[number + 1])):",
        "if cut:",
        ("tests/storage/test_recovery.py", "tests/simulation/test_histories.py"),
    ),
    Defect(
        "a_log_is_cleaned_that_is_not_on_the_disk",
        "What a pass leaves out is missing below the recovery point in the checkpoint.",
        "log_cleaner.py",
        "if checkpoint.written.get(job.partition, 0) < end_offset:",
        "if False:",
        ("tests/broker/test_log_cleaner.py",),
    ),
    Defect(
        "recovery_trusts_the_segment_of_the_recovery_point",
        "After an unclean shutdown recovery begins with the segment that holds the recovery point.",
        "recovery.py",
        "not is_clean and (segment is row[-1] or segment.next_offset > self.recovery_point)",
        "not is_clean and (segment is row[-1] or segment.base_offset > self.recovery_point)",
        ("tests/storage/test_recovery.py", "tests/crash/test_recovery.py"),
    ),
    Defect(
        "cleaner_goes_beyond_the_last_stable_offset",
        "The cleaner leaves alone what is not decided yet.",
        "dirtiness.py",
        "stable = log.last_stable_offset",
        "stable = log.high_watermark",
        ("tests/storage/cleaner/test_dirtiness.py",),
    ),
    Defect(
        "marker_stays_one_pass_after_its_horizon",
        "A marker without data goes with the pass that runs at its delete horizon.",
        "delete_horizons.py",
        "header.has_delete_horizon and header.base_timestamp <= self._now_ms",
        "header.has_delete_horizon and header.base_timestamp < self._now_ms",
        ("tests/storage/cleaner/test_cleaned_transactions.py", "tests/kips/test_kip_534_delete_horizons.py"),
    ),
    Defect(
        "prefixed_acl_misses_the_name_that_equals_its_prefix",
        "A prefixed access rule covers the resource whose whole name is the prefix.",
        "acls.py",
        "if length > len(name):",
        "if length >= len(name):",
        ("tests/broker/security/test_acls.py",),
    ),
    Defect(
        "follower_joins_the_isr_below_the_start_of_the_epoch",
        "A follower joins the replicas in sync only with all that the leader was elected with.",
        "in_sync_replicas.py",
        "self.log_end_offset >= max(high_watermark, epoch_start_offset)",
        "self.log_end_offset >= high_watermark",
        ("tests/broker/replication/test_partition.py", "tests/broker/replication/test_in_sync_replicas.py"),
    ),
    Defect(
        "offsets_of_an_empty_group_expire_by_their_commit",
        "Offsets of a group that had members expire offsets.retention.minutes after it became empty.",
        "offset_expiry.py",
        "(committed.commit_timestamp_ms if empty_since_ms is None else empty_since_ms) + retention_ms",
        "committed.commit_timestamp_ms + retention_ms",
        ("tests/broker/groups/test_offset_expiry.py",),
    ),
    Defect(
        "prepared_commit_is_not_finished_after_a_restart",
        "A coordinator that loads a prepared transaction goes on writing its markers.",
        "coordinator.py",
        "elif entry.state in COMPLETED:",
        "elif entry.state is PREPARE_ABORT:",
        (
            "tests/broker/transactions/test_completion.py",
            "tests/broker/transactions/test_transaction_coordinator.py",
            "tests/broker/transactions/test_transaction_store.py",
        ),
    ),
    Defect(
        "high_watermark_advances_below_min_insync_replicas",
        "The high watermark stands still while fewer replicas are in sync than min.insync.replicas.",
        "partition.py",
        "if self.is_under_min_isr: return False",
        "if not isr: return False",
        ("tests/broker/replication/test_partition.py",),
    ),
    Defect(
        "first_timestamp_of_a_segment_is_its_age",
        "Retention by time goes by the largest timestamp of a segment.",
        "retention.py",
        "now_ms - segment.largest_timestamp > retention_ms",
        "now_ms - segment.first_timestamp > retention_ms",
        ("tests/storage/test_retention.py",),
    ),
    # --- protocol
    Defect(
        "varint_may_have_33_bits",
        "An unsigned varint stands for a number of at most 32 bits.",
        "primitives.py",
        "if byte <= 0x7F and value < 1 << 32:",
        "if byte <= 0x7F and value <= 1 << 32:",
        ("tests/protocol/test_primitives.py",),
    ),
    Defect(
        "header_of_another_version_is_taken_for_the_last_one",
        "The header of the last request serves the next one only where API and version are the same, too.",
        "framing.py",
        "if frame.api_key == self._last_api_key and frame.api_version == self._last_api_version:",
        "if frame.api_key == self._last_api_key:",
        ("tests/protocol/test_framing.py",),
    ),
    # --- network
    Defect(
        "context_of_the_last_version_serves_the_next_request",
        "A handler is told the version of its own request, also where a client changes it.",
        "dispatch.py",
        "or version != context.version or client_id",
        "or client_id",
        ("tests/broker/network/test_dispatch.py",),
    ),
    Defect(
        "host_gets_one_connection_less_than_its_limit",
        "A host may have max.connections.per.ip connections.",
        "socket_server.py",
        "if self._per_host[host] > limit else None",
        "if self._per_host[host] >= limit else None",
        ("tests/broker/network/test_socket_server.py",),
    ),
    Defect(
        "second_mute_shortens_the_first",
        "A connection that is muted twice stays muted for the longer time.",
        "connection.py",
        "max(self._muted_until_ms, now_ms + duration_ms)",
        "now_ms + duration_ms",
        ("tests/broker/network/test_connection.py",),
    ),
    # --- fault rules
    Defect(
        "rule_mixes_the_topic_of_one_partition_with_the_number_of_another",
        "A rule about topic and partition means a request that names this partition of this topic.",
        "matching.py",
        "return any(means(one[0], one[1]) for one in partitions) or",
        "return any(means(one[0], two[1]) for one in partitions for two in partitions) or",
        ("tests/broker/faults/test_matching.py",),
    ),
    Defect(
        "last_delay_counts_alone",
        "The delays of all rules that act on a request add up.",
        "active_rule.py",
        "delay_ms += act.ms + active",
        "delay_ms = act.ms + active",
        ("tests/broker/faults/test_active_rule.py",),
    ),
    Defect(
        "screen_looks_for_the_topic_of_one_rule",
        "A request is looked at if any of the rules may mean it.",
        "prefilter.py",
        "frozenset(topic for topic in topics if topic is not None)",
        "frozenset(topic for topic in topics[:1] if topic is not None)",
        ("tests/broker/faults/test_prefilter.py",),
    ),
    # --- the schema registry
    Defect(
        "number_of_a_version_is_given_again",
        "The next version of a subject has a number above all that are there.",
        "registered.py",
        "return max(self._subjects.get(subject, {}), default=0) + 1",
        "return len(self._subjects.get(subject, {})) + 1",
        ("tests/registry/test_registered.py",),
    ),
    Defect(
        "incompatibility_with_the_oldest_version_is_told",
        "Of several versions that a schema is incompatible with, the latest one is told.",
        "compatibility.py",
        "for one in reversed(compared):",
        "for one in compared:",
        ("tests/registry/test_registration.py",),
    ),
    # --- the client
    Defect(
        "short_time_out_waits_for_a_long_one",
        "A request times out by its own deadline, also behind a request with a later one.",
        "connection.py",
        "if self._watchdog is None or deadline < self._watchdog.when():",
        "if self._watchdog is None:",
        ("tests/client/test_connection.py",),
    ),
    Defect(
        "first_batch_of_an_aborted_transaction_is_shown",
        "A reader of committed records is shown no batch of an aborted transaction, from its first offset on.",
        "consume.py",
        "self._begins[0][1] <= header.last_offset",
        "self._begins[0][1] < header.base_offset",
        ("tests/client/test_consume.py",),
    ),
    Defect(
        "coordinator_of_a_transaction_is_asked_once_more_for_ever",
        "The client forgets a coordinator, of a group or of a transactional id, that answers with a retriable error.",
        "cluster_connections.py",
        "self._coordinators.pop((key_type, key), None)",
        "self._coordinators.pop((GROUP, key), None)",
        ("tests/client/test_cluster_connections.py",),
    ),
    # --- transactions
    Defect(
        "marker_refused_for_lack_of_replicas_is_given_up",
        "A marker that is refused with NOT_ENOUGH_REPLICAS is written again.",
        "completion.py",
        "NotLeaderOrFollower, NotEnoughReplicas, NotEnoughReplicasAfterAppend, RequestTimedOut, KafkaStorageError, ) )",
        "NotLeaderOrFollower, NotEnoughReplicasAfterAppend, RequestTimedOut, KafkaStorageError))",
        ("tests/broker/transactions/test_completion.py",),
    ),
    Defect(
        "partition_without_a_leader_needs_no_marker",
        "A transaction is complete when each partition has its marker, also one that had no leader for a while.",
        "completion.py",
        "codes.update(dict.fromkeys(led, NotLeaderOrFollower.code))",
        "codes.update(dict.fromkeys(led, NONE))",
        ("tests/broker/transactions/test_completion.py",),
    ),
    Defect(
        "late_partition_renews_the_time_out",
        "The time-out of a transaction counts from its first partition.",
        "transaction_coordinator.py",
        "elif not was_open and self.has(transaction):",
        "elif self.has(transaction):",
        ("tests/broker/transactions/test_time_outs.py",),
    ),
    Defect(
        "marker_is_written_under_too_few_replicas",
        "A marker is refused while fewer replicas are in sync than min.insync.replicas.",
        "markers.py",
        "partition.check_min_isr() now_ms",
        "now_ms",
        ("tests/broker/transactions/test_markers.py",),
    ),
    # --- groups
    Defect(
        "older_offset_counts_after_a_restart",
        "Of two transactional commits the record written last counts, also where they were loaded.",
        "group_loader.py",
        "if key in pending and pending[key].record_offset < record_offset:",
        "if key in pending:",
        ("tests/broker/groups/test_transactional_offsets.py",),
    ),
    Defect(
        "new_member_keeps_the_five_minutes_of_its_join",
        "The session of a new member of a classic group begins with the answer to its JoinGroup.",
        "rebalance.py",
        "self.sessions.extend(member, group) member.is_new = False",
        "member.is_new = False",
        ("tests/broker/groups/classic/test_sessions.py",),
    ),
    Defect(
        "static_member_that_came_back_has_no_session",
        "A static member that takes the place of its old id has a session like any other.",
        "joins.py",
        "self._rebalancer.sessions.extend(new, group) self._update",
        "self._update",
        ("tests/broker/groups/classic/test_sessions.py",),
    ),
    Defect(
        "heartbeat_extends_no_session",
        "The session of a member of a consumer group begins anew with every heartbeat.",
        "heartbeats.py",
        "life.extend_session(group, answer.member_id)",
        "",
        ("tests/broker/groups/consumer/test_life.py",),
    ),
    Defect(
        "commit_at_the_epoch_of_the_assignment_is_stale",
        "A member commits with an older epoch what it was assigned at or before that epoch.",
        "fencing.py",
        "assigned_at is None or epoch < assigned_at:",
        "assigned_at is None or epoch <= assigned_at:",
        ("tests/broker/groups/modern/test_fencing.py",),
    ),
    Defect(
        "restart_ends_the_wait_for_partitions_to_be_given_up",
        "After a restart a member is waited for again that has to give up partitions.",
        "group_life.py",
        "self.extend_session(group, member_id) self.set_rebalance_timer(group, member_id)",
        "self.extend_session(group, member_id)",
        ("tests/broker/groups/consumer/test_life.py",),
    ),
    Defect(
        "epoch_before_is_accepted_with_any_tasks",
        "A member of a streams group that repeats its last epoch has no more tasks than it was assigned.",
        "heartbeats.py",
        "owned is not None and current.assigned.contains(owned)",
        "owned is not None",
        ("tests/broker/groups/streams/test_heartbeats.py",),
    ),
    Defect(
        "target_is_computed_one_millisecond_late",
        "The target of a streams group may be computed anew once streams.assignment.interval.ms have passed.",
        "member_steps.py",
        "streams_assignment_interval_ms return",
        "streams_assignment_interval_ms + 1\n        return",
        ("tests/broker/groups/streams/test_heartbeats.py",),
    ),
    # --- replication, reads and resets
    Defect(
        "log_without_a_topic_id_is_one_of_the_next_topic_of_its_name",
        "A broker that was away while a topic was deleted has nothing of it when it comes back.",
        "replica_manager.py",
        "of = {topic_id for topic_id, name in deleted.items() if name == topic_partition.topic}",
        "of = set()",
        ("tests/broker/test_local_cluster.py",),
    ),
    Defect(
        "broker_that_is_cut_off_knows_the_ids_of_new_topics",
        "A fetch by the id of a topic is not served from the log of another one of its name.",
        "partition.py",
        "if partition_log.topic_id != topic_id:",
        "if False:",
        ("tests/broker/test_local_cluster.py",),
    ),
    Defect(
        "idle_follower_leaves_with_the_next_append",
        "A follower that had everything had it until the leader's next append.",
        "partition.py",
        "self.replicas.leader_moves_on(log.log_end_offset, host.clock.liveness_ms())",
        "pass",
        ("tests/broker/replication/test_partition.py",),
    ),
    Defect(
        "leader_that_was_dead_serves_deleted_records",
        "A leader that was cut off serves no consumer until its successor has told where its log starts.",
        "replica_manager.py",
        "led is not None and not self._is_rejoining",
        "led is not None",
        ("tests/broker/replication/test_replica_manager.py",),
    ),
    Defect(
        "empty_partition_uses_up_the_right_to_a_whole_batch",
        "The first batch of a fetch is sent whole, also where partitions without records come first (KIP-74).",
        "fetch_byte_limits.py",
        "if size: nothing_yet = False left",
        "nothing_yet = False\n        if size:\n            left",
        ("tests/broker/replication/test_fetch_byte_limits.py",),
    ),
    Defect(
        "reset_leaves_the_levels_of_loggers",
        "After a reset loggers have the levels from before clients changed them.",
        "resetting.py",
        "restore_levels() return Emptied",
        "return Emptied",
        ("tests/broker/test_reset.py",),
    ),
    Defect(
        "expired_tokens_are_taken",
        "A token of OAUTHBEARER is refused once it has expired, but for the skew of the clocks.",
        "bearer_tokens.py",
        "if now_s - self.skew_s >= expires_s:",
        "if now_s - self.skew_s >= expires_s + 3600:",
        ("tests/broker/security/test_bearer_tokens.py",),
    ),
    Defect(
        "a_session_outlives_its_token",
        "A session ends with its token or after connections.max.reauth.ms, whichever is sooner.",
        "sasl.py",
        "self._session_ms = min(self._session_ms or left_ms, left_ms)",
        "self._session_ms = self._session_ms or left_ms",
        ("tests/broker/security/test_sasl.py",),
    ),
    Defect(
        "an_expired_delegation_token_logs_in",
        "A delegation token does not log in once it has expired, also before the sweep that removes it.",
        "delegation_tokens.py",
        "if token is None or token.is_expired(self._clock.now_ms()):",
        "if token is None:",
        ("tests/broker/security/test_delegation_tokens.py",),
    ),
    Defect(
        "a_delegation_token_makes_tokens",
        "A client that a delegation token has authenticated gets no other token.",
        "delegation_tokens.py",
        "return not connection.sasl.is_by_token",
        "return True",
        ("tests/broker/handlers/test_create_delegation_token.py",),
    ),
    Defect(
        "replaced_stores_are_not_shown",
        "A handshake that begins after a key store was replaced shows the new certificate.",
        "tls.py",
        "secured.context = self._current.context",
        "secured.context = context",
        ("tests/broker/security/test_renewed_stores.py",),
    ),
    Defect(
        "the_last_of_equally_loaded_processes_is_taken",
        "Of equally loaded processes of Kafka Streams the one gets a task that Kafka's queue gives.",
        "sticky_assignor.py",
        "if below + 1 < size and heap[below][0] > heap[below + 1][0]:",
        "if below + 1 < size and heap[below][0] >= heap[below + 1][0]:",
        ("tests/broker/groups/streams/test_sticky_assignor.py",),
    ),
    Defect(
        "quota_of_a_user_comes_before_that_of_its_client_ids",
        "A quota of any client id of a user comes before one of the user.",
        "precedence.py",
        "((user, DEFAULT), both), (of_user, of_user),",
        "(of_user, of_user), ((user, DEFAULT), both),",
        ("tests/broker/quotas/test_precedence.py",),
    ),
    Defect(
        "throttled_client_is_served_on",
        "Nothing more of a throttled client's connection is served until its time is over.",
        "throttling.py",
        "if self._throttle_ms: self._context.connection.mute(self._throttle_ms)",
        "self._exchange.note_fault('')",
        ("tests/broker/quotas/test_throttling.py",),
    ),
    Defect(
        "throttled_fetch_counts",
        "A fetch above its quota, which is answered without records, does not count.",
        "throttling.py",
        "rate.record(-size, now_ms)",
        "rate.record(0, now_ms)",
        ("tests/broker/quotas/test_throttling.py",),
    ),
)


class Place(NamedTuple):
    """Where a defect goes: a file of the tree, and the characters that it replaces."""

    path: Path
    start: int
    end: int


def place_of(defect: Defect, tree: Path) -> Place:
    """The one place that a defect is for. Raises CannotPlant, naming the piece of code, if there is no such one."""
    pattern = re.compile(r"\s+".join(map(re.escape, defect.code.split())))
    found = [
        Place(path, match.start(), match.end())
        for path in modules(tree)
        for match in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    if len(found) > 1:
        found = [place for place in found if place.path.name == defect.file_name]
    if len(found) != 1:
        raise CannotPlant(
            f"{defect.name}: {len(found)} places instead of one for {defect.code!r}"
            f" (once in {defect.file_name}; searched: {', '.join(SEARCHED)})"
        )
    return found[0]


def modules(tree: Path) -> Iterator[Path]:
    """The Python files of the searched folders."""
    for folder in SEARCHED:
        yield from sorted((tree / folder).rglob("*.py"))


def plant(defect: Defect, tree: Path) -> tuple[Path, str]:
    """Make the change in `tree`; returns the changed file and the text that it had."""
    place = place_of(defect, tree)
    text = place.path.read_text(encoding="utf-8")
    write_module(place.path, text[: place.start] + defect.planted + text[place.end :])
    return place.path, text


def write_module(path: Path, text: str) -> None:
    """Write a module, and forget its bytecode, which Python would use after two changes of one size in one second."""
    path.write_text(text, encoding="utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def copy_tree(target: Path) -> None:
    """Copy what is under version control, as it is now, and the compiled kernels; link what tests download.

    Other modules that a build compiles run interpreted: compiled, they would have no planted defect.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name]
    names += [str(path.relative_to(TREE)) for path in (TREE / "protocol" / "records" / "kernels").glob("*.so")]
    for name in names:
        if os.path.lexists(TREE / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, target / name, follow_symlinks=False)
    if (TREE / ".peers").exists():
        (target / ".peers").symlink_to((TREE / ".peers").resolve())


def link_package(tree: Path, site: Path) -> None:
    """Make `kmini` importable from `site`, out of the folders of `tree` that make it up where this program runs."""
    import kmini

    home = tree / Path(kmini.__path__[0]).resolve().relative_to(TREE)
    package = site / "kmini"
    package.mkdir(parents=True)
    for entry in home.iterdir():
        (package / entry.name).symlink_to(entry)
    for folder in sorted(path.parent.name for path in tree.glob("*/__init__.py")):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(f"kmini.{folder}")
            if not (package / folder).exists():
                (package / folder).symlink_to(tree / folder)


def run_tests(tests: Iterable[str], tree: Path, site: Path) -> tuple[bool, str]:
    """Run test files in the copy until one fails; whether all passed, and the closing line or the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    try:
        run = subprocess.run(
            [*command, *tests], cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False, f"no end within {TIMEOUT_S} s"
    if run.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run {' '.join(tests)}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return run.returncode == 0, (failed or run.stdout.splitlines()[-1:])[0][:150]


def check_imports(tree: Path, site: Path) -> None:
    """Stop unless tests in the copy import the copy."""
    code = "import kmini.storage.log as module; print(module.__file__)"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True
    )
    if not run.stdout.strip() or tree.resolve() not in Path(run.stdout.strip()).resolve().parents:
        raise SystemExit(f"the copy would not be tested: {run.stdout}{run.stderr}")


def chosen(names: list[str]) -> list[Defect]:
    """The defects of these names, or all. Ends the program at a name that there is not."""
    unknown = {*names} - {defect.name for defect in DEFECTS}
    if unknown:
        raise SystemExit(f"there is no defect {', '.join(sorted(unknown))}")
    return [defect for defect in DEFECTS if not names or defect.name in names]


@contextlib.contextmanager
def copied_tree() -> Iterator[tuple[Path, Path]]:
    """A copy of the tree, and the folder from which its `kmini` is imported."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        tree, site = Path(directory, "tree"), Path(directory, "site")
        copy_tree(tree)
        link_package(tree, site)
        check_imports(tree, site)
        yield tree, site


def escaped(defects: list[Defect], tree: Path, passes: Callable[[Defect], tuple[bool, str]]) -> list[str]:
    """Plant each defect in the copy, one at a time; the names of those with which all passes. `passes` says that, and
    what to print."""
    found = []
    for defect in defects:
        began = time.monotonic()
        path, text = plant(defect, tree)
        try:
            passed, line = passes(defect)
        finally:
            write_module(path, text)
        if passed:
            found.append(defect.name)
        verdict = "ESCAPED" if passed else "caught"
        print(f"{verdict:8}{defect.name} ({time.monotonic() - began:.0f} s): {line}", flush=True)
    return found


def try_all(defects: list[Defect], *, is_wide: bool) -> list[str]:
    """Run the tests with each defect, some side by side in copies of their own; the names of those that escaped."""
    scopes = {
        defect: sorted({os.path.dirname(test) for test in defect.tests}) if is_wide else [*defect.tests]
        for defect in defects
    }
    with copied_tree() as (tree, site):
        passed, line = run_tests(sorted({test for tests in scopes.values() for test in tests}), tree, site)
    print(f"without a defect: {line}", flush=True)
    if not passed:
        raise SystemExit("the tests fail without any defect: nothing can be said")

    def try_some(share: list[Defect]) -> list[str]:
        with copied_tree() as (tree, site):
            return escaped(share, tree, lambda defect: run_tests(scopes[defect], tree, site))

    count = os.cpu_count() or 1
    with ThreadPoolExecutor(count) as pool:
        found = pool.map(try_some, [defects[number::count] for number in range(count)])
        return [name for names in found for name in names]


def simulate_all(defects: list[Defect], seeds: str) -> list[str]:
    """Play the histories of tests/simulate.py with each defect; the names of those that break no promise."""
    command = [sys.executable, "tests/simulate.py", seeds, "--stop"]
    with copied_tree() as (tree, site):
        environment = {**os.environ, "PYTHONPATH": str(site)}

        def passes(_: Defect) -> tuple[bool, str]:
            run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
            said = run.stdout.splitlines()
            if run.returncode not in (0, 1) or not said:
                raise SystemExit(f"{' '.join(command)} could not run: {run.stdout[-2000:]}{run.stderr[-2000:]}")
            return run.returncode == 0, said[-1]

        return escaped(defects, tree, passes)


def main() -> int:
    """Run as the module's text says."""
    parser = argparse.ArgumentParser(description="Plant defects, one at a time, and see whether tests catch them.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="say where each defect goes; run nothing")
    parser.add_argument("--wide", action="store_true", help="run all tests below the folders of the named ones")
    parser.add_argument("--simulate", metavar="SEEDS", help="play these histories instead of the tests")
    arguments = parser.parse_args()
    defects = chosen(arguments.names)
    try:
        places = [place_of(defect, TREE) for defect in defects]
    except CannotPlant as error:
        print(error, file=sys.stderr)
        return 2
    missing = {test for defect in defects for test in defect.tests if not (TREE / test).is_file()}
    if missing:
        print(f"these test files are gone: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    if arguments.list:
        for defect, place in zip(defects, places, strict=True):
            print(f"{place.path.relative_to(TREE)}: {defect.name}: {defect.rule}")
        return 0
    if arguments.simulate:
        missed = simulate_all(defects, arguments.simulate)
    else:
        missed = try_all(defects, is_wide=arguments.wide)
    print(f"{len(defects) - len(missed)} of {len(defects)} caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
