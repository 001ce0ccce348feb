"""Errors after which clients of every library send the same request again."""

PRODUCE = [
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "KAFKA_STORAGE_ERROR",
    "REQUEST_TIMED_OUT",
    "CORRUPT_MESSAGE",
]
