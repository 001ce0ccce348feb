"""Where the services find Kafka, and what their topics and groups are called there."""

from typing import NamedTuple


class Kafka(NamedTuple):
    """The address of a Kafka, and a prefix of names, so that several shops can share one."""

    servers: str
    prefix: str = ""

    def name(self, plain: str) -> str:
        """The name of a topic, a group or a transactional id of this shop."""
        return self.prefix + plain
