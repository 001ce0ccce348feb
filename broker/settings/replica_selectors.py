"""The values of `replica.selector.class`: the selectors of Apache Kafka, by their class names (KIP-392)."""

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""A consumer reads from a replica in its own rack."""

LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
"""Every consumer reads from the leader, as without a selector."""
