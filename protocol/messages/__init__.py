"""Every message that kmini speaks, one module for each API. This is the one list of them, kept by hand.

Import a message from its module where you can (`from .messages.fetch import FetchRequest`). The names here are for
callers that need messages of many APIs: `messages.FetchRequest`, and REQUESTS. A module is imported when the first of
its messages is needed, because a broker starts sooner without the messages that no client has sent yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..schema import Request

MODULES = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    38: "create_delegation_token",
    39: "renew_delegation_token",
    40: "expire_delegation_token",
    41: "describe_delegation_token",
    42: "delete_groups",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    47: "offset_delete",
    48: "describe_client_quotas",
    49: "alter_client_quotas",
    50: "describe_user_scram_credentials",
    51: "alter_user_scram_credentials",
    55: "describe_quorum",
    57: "update_features",
    60: "describe_cluster",
    61: "describe_producers",
    64: "unregister_broker",
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    83: "initialize_share_group_state",
    84: "read_share_group_state",
    85: "write_share_group_state",
    86: "delete_share_group_state",
    87: "read_share_group_state_summary",
    88: "streams_group_heartbeat",
    89: "streams_group_describe",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
}
"""The module of each API, by API key: Kafka's name of the API in snake case."""


def message_name(module: str) -> str:
    """Kafka's name of the API whose messages `module` has: "DeleteRecords" for "delete_records"."""
    return "".join(word.capitalize() for word in module.split("_"))


class _Requests(Mapping[int, "type[Request]"]):
    """The request classes by API key; each has its `response`."""

    def __getitem__(self, api_key: int) -> type[Request]:
        module = MODULES[api_key]
        request: type[Request] = getattr(import_module(f".{module}", __name__), f"{message_name(module)}Request")
        return request

    def __iter__(self) -> Iterator[int]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


REQUESTS = _Requests()


def __getattr__(name: str) -> Any:
    """Import the module of a request or response when its name is used."""
    for suffix in ("Request", "Response"):
        for module in MODULES.values():
            if name == message_name(module) + suffix:
                message = globals()[name] = getattr(import_module(f".{module}", __name__), name)
                return message
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
