"""Streams groups (KIP-1071): groups of Kafka Streams, whose coordinator assigns tasks and makes the internal topics."""
