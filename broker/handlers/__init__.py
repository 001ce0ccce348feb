"""One module for each API: data sheet, permissions, guard and handler.

This is the one list of them, and of the versions that a broker serves, kept by hand so that it can be searched. A
module is imported, and registers its handler, when the first request for it arrives. The docstring of a module is the
data sheet: versions, behaviour, differences from Apache Kafka.
"""

from ..api.registry import listed

HANDLERS = listed(
    __name__,
    {
        "add_offsets_to_txn": "0-4",
        "add_partitions_to_txn": "0-5",
        "alter_client_quotas": "0-1",
        "alter_configs": "0-2",
        "alter_partition_reassignments": "0-1",
        "alter_replica_log_dirs": "0-2",
        "alter_user_scram_credentials": "0-0",
        "api_versions": "0-4",
        "create_acls": "0-3",
        "create_partitions": "0-3",
        "create_topics": "0-7",
        "delete_acls": "0-3",
        "delete_groups": "0-2",
        "delete_records": "0-2",
        "delete_topics": "0-6",
        "describe_acls": "0-3",
        "describe_client_quotas": "0-1",
        "describe_cluster": "0-2",
        "describe_configs": "0-4",
        "describe_groups": "0-6",
        "describe_log_dirs": "0-5",
        "describe_producers": "0-0",
        "describe_quorum": "0-2",
        "describe_topic_partitions": "0-0",
        "describe_transactions": "0-0",
        "describe_user_scram_credentials": "0-0",
        "elect_leaders": "0-2",
        "end_txn": "0-4",
        "fetch": "0-18",
        "find_coordinator": "0-6",
        "heartbeat": "0-4",
        "incremental_alter_configs": "0-1",
        "init_producer_id": "0-5",
        "join_group": "0-9",
        "leave_group": "0-5",
        "list_config_resources": "0-1",
        "list_groups": "0-5",
        "list_offsets": "0-11",
        "list_partition_reassignments": "0-0",
        "list_transactions": "0-2",
        "metadata": "0-13",
        "offset_commit": "0-10",
        "offset_delete": "0-0",
        "offset_fetch": "0-10",
        "offset_for_leader_epoch": "0-4",
        "produce": "0-13",
        "sasl_authenticate": "0-2",
        "sasl_handshake": "0-1",
        "sync_group": "0-5",
        "txn_offset_commit": "0-4",
        "unregister_broker": "0-0",
        "update_features": "0-2",
        "write_txn_markers": "0-2",
    },
)
"""The handler of every API, by API key."""
