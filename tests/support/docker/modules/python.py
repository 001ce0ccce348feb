"""Starts kmini's image by Testcontainers for Python, says where the broker is, and ends it when its input ends."""

import sys

from testcontainers.community.kafka import KafkaContainer

container = KafkaContainer(sys.argv[1])
if "with_kraft" in sys.argv[2:]:
    container.with_kraft()
with container:
    print(container.get_bootstrap_server(), flush=True)
    sys.stdin.read()
