"""CreatePartitions: we answer the same requests as Apache Kafka does."""

from __future__ import annotations

from typing import Any

from support.kafka_requests import metadata
from support.oracle.config_requests import (
    grow,
)
from support.transcript import SameAnswers, Transcript

# --- CreatePartitions


def test_create_partitions(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        topic, other = transcript.create(partitions=2), transcript.create("-other")

        def ask(what: str, *wishes: tuple[str, int, list[list[int]] | None], version: int = 3, **options: Any) -> None:
            transcript.ask(what, grow(*wishes, **options), version)

        for version in range(4):
            ask("one more", (topic, 3 + version, None), version=version)
        for count in (6, 1, 0, -1):
            ask(f"{count} partitions where there are 6", (topic, count, None))
        ask("validate only", (topic, 100, None), validate_only=True)
        ask("validate only, again", (topic, 100, None), validate_only=True)
        ask("validate only, fewer", (topic, 1, None), validate_only=True)
        ask("an unknown topic", (f"{topic}-absent", 4, None))
        ask("an impossible topic", ("a b", 4, None))
        ask("an empty name", ("", 4, None))
        ask("twice", (topic, 10, None), (topic, 11, None))
        ask("twice, and another", (topic, 10, None), (topic, 10, None), (other, 2, None))
        ask("assigned", (other, 4, [[1], [1]]))
        ask("too few assigned", (other, 7, [[1], [1]]))
        ask("too many assigned", (other, 5, [[1], [1]]))
        ask("none assigned", (other, 5, []))
        ask("assigned to nobody", (other, 5, [[]]))
        ask("one of two assigned to nobody", (other, 6, [[1], []]))
        ask("assigned to a stranger", (other, 5, [[9]]))
        ask("assigned twice to one", (other, 5, [[1, 1]]))
        ask("assigned to two", (other, 5, [[1, 2]]))
        ask("fewer, and assigned", (other, 1, [[1]]))
        ask("several, some wrong", (other, 1, None), (f"{topic}-absent", 5, None), (topic, 7, None))
        ask("nothing")
        ask("with no time", (topic, 8, None), timeout_ms=0)
        transcript.wait_for_partitions(topic, 7)
        transcript.wait_for_partitions(other, 4)
        transcript.ask("the result", metadata(other), 12)

    same_answers(script)
