"""Kafka's wire protocol: bytes to messages and back, without input or output. The README beside this file says more."""
