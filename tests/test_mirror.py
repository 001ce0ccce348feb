"""A module's test is where one looks: `tests/<package>/test_<module>.py`, or in the file that a table here names."""

from __future__ import annotations

import pytest

from support.source_tree import ROOT, Module, imported_by, modules, syntax, text

SMALL_LINES = 60
"""Lines up to which a module needs no test file of its name: the tests of its callers hold it."""

STANDS_FOR = {
    "broker/groups/classic/classic_groups.py": "tests/broker/groups/test_group_coordinator.py",
    "broker/controller/topology.py": "tests/broker/controller/test_reassignments.py",
    "embed/cli/archive.py": "tests/pipeline/archives/test_archive_command.py",
    "embed/cli/audit.py": "tests/pipeline/audit/test_command.py",
    "embed/cli/audit_policies.py": "tests/pipeline/audit/test_policies.py",
    "embed/cli/broker_call.py": "tests/cli/test_program.py",
    "embed/cli/graduate.py": "tests/graduation/test_command.py",
    "embed/cli/init_done.py": "tests/cli/test_init_directory.py",
    "embed/cli/init_runners.py": "tests/cli/test_init_directory.py",
    "embed/cli/pipeline.py": "tests/pipeline/stages/test_pipeline_file.py",
    "embed/control/connected_tables.py": "tests/embed/control/test_connected.py",
    "embed/control/control_client.py": "tests/embed/control/test_connected.py",
    "embed/registry/compatibility.py": "tests/embed/registry/test_registration.py",
    "embed/registry/formats/schema_format.py": "tests/embed/registry/test_schema_reading.py",
    "embed/registry/registry_answers.py": "tests/embed/registry/test_registry_server.py",
    "embed/registry/registry_errors.py": "tests/embed/registry/test_registry_server.py",
    "embed/registry/registry_routes.py": "tests/embed/registry/test_registry_server.py",
    "embed/cli/listening_port.py": "tests/cli/test_registry_port.py",
    "embed/cli/ports_beside.py": "tests/cli/test_registry_port.py",
    "embed/http_serving.py": "tests/embed/registry/test_registry_server.py",
    "embed/control/log_events.py": "tests/embed/control/test_changes.py",
    "embed/control/request_events.py": "tests/embed/control/test_changes.py",
    "embed/descriptions.py": "tests/embed/report/test_diagnoses.py",
    "embed/host.py": "tests/embed/test_event_loops.py",
    "embed/operations.py": "tests/embed/test_embedded.py",
    "embed/registry/formats/protobuf/": "tests/embed/registry/formats/protobuf/test_parser.py",
    "embed/remote/remote_group.py": "tests/embed/remote/test_remote_broker.py",
    "embed/remote/remote_operations.py": "tests/embed/remote/test_remote_broker.py",
    "embed/remote/remote_records.py": "tests/embed/remote/test_remote_broker.py",
    "embed/remote/remote_topic.py": "tests/embed/remote/test_remote_broker.py",
    "embed/remote/remote_transactions.py": "tests/embed/remote/test_remote_broker.py",
    "embed/report/group_diagnoses.py": "tests/embed/report/test_diagnoses.py",
    "embed/testing.py": "tests/broker/network/test_connection.py",
    "embed/trace/connection_end.py": "tests/embed/trace/test_proxied_connection.py",
    "embed/trace/learned.py": "tests/embed/trace/test_observer.py",
    "embed/trace/share_messages.py": "tests/embed/trace/test_rewriting.py",
    "graduation/metadata_log.py": "tests/graduation/test_graduate.py",
    "graduation/partition_files.py": "tests/graduation/test_graduate.py",
    "graduation/source.py": "tests/graduation/test_refusals.py",
    "pipeline/archives/archive_files.py": "tests/pipeline/archives/test_partition_replay.py",
    "pipeline/archives/java_writer.py": "tests/pipeline/archives/test_archive.py",
    "pipeline/audit/age_charts.py": "tests/docs/test_audit_picture.py",
    "pipeline/audit/audit_plan.py": "tests/pipeline/audit/test_segment_facts.py",
    "pipeline/audit/local_audit.py": "tests/pipeline/audit/test_segment_facts.py",
    "pipeline/audit/rendering.py": "tests/pipeline/audit/test_command.py",
    "embed/registry/formats/avro_values.py": "tests/embed/control/test_schema_decoding.py",
    "embed/registry/record_decoding.py": "tests/embed/control/test_schema_decoding.py",
    "embed/registry/formats/json_schema/": "tests/embed/registry/formats/json_schema/test_comparison.py",
    "embed/cluster_operations.py": "tests/embed/test_cluster.py",
    "embed/lives.py": "tests/embed/control/test_steered.py",
    "pipeline/audit/report.py": "tests/pipeline/audit/test_assessment.py",
    "pipeline/audit/segment_headers.py": "tests/pipeline/audit/test_assessment.py",
    "pipeline/logs/arrow_columns.py": "tests/pipeline/logs/test_segment_scan.py",
    "pipeline/logs/rows.py": "tests/pipeline/logs/test_segment_scan.py",
    "protocol/codec_extension.py": "tests/protocol/test_compiled_codecs.py",
    "protocol/compile.py": "tests/protocol/test_codecs.py",
    "protocol/cython_source.py": "tests/protocol/test_compiled_codecs.py",
    "protocol/decoder_source.py": "tests/protocol/test_codecs.py",
    "protocol/encoder_source.py": "tests/protocol/test_codecs.py",
    "protocol/explain.py": "tests/protocol/test_codecs.py",
    "protocol/function_source.py": "tests/protocol/test_codecs.py",
    "protocol/records/record.py": "tests/protocol/records/test_batch_records.py",
    "protocol/cython_words.py": "tests/protocol/test_extension_modules.py",
    "protocol/records/kernels/column_kinds.py": "tests/protocol/records/kernels/test_columns.py",
    "protocol/records/kernels/cut_record.py": "tests/protocol/records/kernels/test_scan.py",
    "protocol/records/kernels/simple_batches.py": "tests/protocol/records/kernels/test_sieve.py",
    "protocol/records/kernels/tuples.py": "tests/protocol/records/kernels/test_walker.py",
    "broker/groups/streams/heartbeat_fields.py": "tests/broker/handlers/test_streams_group_heartbeat.py",
    "broker/groups/streams/member_steps.py": "tests/broker/groups/streams/test_heartbeats.py",
    "broker/groups/streams/streams_group_records.py": "tests/broker/groups/streams/test_state_changes.py",
    "broker/groups/streams/task_members.py": "tests/broker/groups/streams/test_task_reconciliation.py",
    "broker/security/permission_kinds.py": "tests/broker/security/test_permissions.py",
    "broker/metrics_text.py": "tests/broker/test_metrics.py",
    "broker/handlers/fetch_response.py": "tests/broker/handlers/test_fetch.py",
    "broker/handlers/kept_fetch.py": "tests/broker/handlers/test_fetch.py",
    "broker/replication/delayed_fetch.py": "tests/broker/handlers/test_fetch.py",
    "broker/replication/fetch_partition.py": "tests/broker/handlers/test_fetch_sessions.py",
    "broker/replication/fetch_sessions.py": "tests/broker/handlers/test_fetch_sessions.py",
    "protocol/messages/": "tests/protocol/messages/test_messages.py",
}
"""Test files that stand for a module, or for all modules of a folder whose name ends in a slash."""


def mirrored(path: str) -> str:
    """The test file of a module: "tests/broker/test_purgatory.py" for "broker/purgatory.py"."""
    folder, _, name = path.removeprefix("embed/cli/").rpartition("/")
    folder = "cli" if path.startswith("embed/cli/") else folder
    return f"tests/{folder}/test_{name}"


def stands_for(path: str) -> str | None:
    """The test file that the table names for a module, or for its folder."""
    return STANDS_FOR.get(path, STANDS_FOR.get(path.rpartition("/")[0] + "/"))


def test_every_module_over_60_lines_has_its_test_where_one_looks() -> None:
    needed = [each.path for each in modules() if each.lines > SMALL_LINES and not each.is_package]
    without = [path for path in needed if not (ROOT / mirrored(path)).exists() and stands_for(path) is None]
    assert without == []


def test_no_line_of_the_table_is_stale() -> None:
    """A module that is gone, has shrunk, or has a test file of its name by now needs no line."""
    needed = {each.path for each in modules() if each.lines > SMALL_LINES}
    missing = {path for path in needed if not (ROOT / mirrored(path)).exists()}
    assert sorted({path for path in STANDS_FOR if not path.endswith("/")} - missing) == []
    assert [path for path in STANDS_FOR if path.endswith("/") and not (ROOT / path).is_dir()] == []


@pytest.mark.parametrize("path", sorted(STANDS_FOR))
def test_a_test_file_that_stands_for_a_module_imports_or_names_it(path: str) -> None:
    test = STANDS_FOR[path]
    module = path.removesuffix(".py").removeprefix("embed/").rstrip("/").replace("/", ".")
    imported = imported_by(Module("", test, is_package=False), syntax(test), {f"kmini.{module}"})
    assert imported or f"kmini.{module}" in text(test) or path in text(test), f"{test} says nothing of {path}"
