"""Settings of groups (resource type 32): we answer the same requests as Apache Kafka does."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import ListConfigResourcesRequest

from support.oracle.config_requests import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    change,
    describe,
    replace,
    settle,
    tell,
)
from support.transcript import SameAnswers, Transcript

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"

VALUES = {
    SESSION: ["999", "45000", "600000", "600001", "0", "-1", "", " 50000 ", "x", "5e4", "99999999999"],
    HEARTBEAT: ["0", "299", "300", "15000", "15001", "45000"],
    ASSIGNMENT: ["-1", "0", "15000", "15001"],
    "share.session.timeout.ms": ["999", "45000", "600000", "600001"],
    "share.heartbeat.interval.ms": ["0", "299", "300", "15000", "15001"],
    "share.assignment.interval.ms": ["-1", "0", "15000", "15001"],
    "share.record.lock.duration.ms": ["999", "14999", "15000", "60000", "60001"],
    "share.delivery.count.limit": ["1", "2", "10", "11"],
    "share.partition.max.record.locks": ["99", "100", "4000", "4001"],
    "share.auto.offset.reset": [
        *("earliest", "latest", "LATEST", "none", "", "by_duration", "by_duration:", "by_duration:PT1H"),
        *("by_duration:pt1h", "by_duration:P1DT2H3M4.5S", "by_duration:P1D", "by_duration:P", "by_duration:PT"),
        *("by_duration:-PT1S", "by_duration:PT-1S", "by_duration:P1Y", "by_duration:1h", "BY_DURATION:PT1H"),
        *("by_duration: PT1H", "by_duration:P1DT-1H", "by_duration:PT0S"),
    ],
    "share.isolation.level": ["read_committed", "read_uncommitted", "READ_COMMITTED", ""],
    "share.renew.acknowledge.enable": ["true", "False", "yes", ""],
    "streams.session.timeout.ms": ["999", "45000", "600000", "600001"],
    "streams.heartbeat.interval.ms": ["0", "299", "300", "15000", "15001"],
    "streams.assignment.interval.ms": ["-1", "0", "15000", "15001"],
    "streams.num.standby.replicas": ["-1", "0", "2", "3"],
    "streams.initial.rebalance.delay.ms": ["-1", "0", "60000"],
    "consumer.assignor.offload.enable": ["true"],
    "nope": ["1"],
    "group.consumer.session.timeout.ms": ["45000"],
    "retention.ms": ["1"],
}
"""By setting: values within the bounds and out of them."""


def test_values_of_groups_settings(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        for name, values in VALUES.items():
            for value in values:
                request = change((GROUP, transcript.topic, [(name, SET, value)]), validate_only=True)
                transcript.ask(f"{name}={value}", request, 1)
                transcript.ask(
                    f"{name}={value}, replaced",
                    replace((GROUP, transcript.topic, [(name, value)]), validate_only=True),
                    2,
                )

    same_answers(script)


def test_refusals_of_changes_of_groups_settings(same_answers: SameAnswers) -> None:
    def script(transcript: Transcript) -> None:
        def ask(what: str, *changes: Any, name: str = transcript.topic) -> None:
            transcript.ask(what, change((GROUP, name, list(changes))), 1)

        for name in (transcript.topic, ""):
            of = "a group" if name else "no group"
            for operation in (APPEND, SUBTRACT, 7):
                ask(f"operation {operation}, {of}", (SESSION, operation, "50000"), name=name)
                ask(f"operation {operation}, unknown, {of}", ("nope", operation, "50000"), name=name)
            ask(f"null, {of}", (SESSION, SET, None), name=name)
            ask(f"null, unknown, {of}", ("nope", SET, None), name=name)
            ask(f"deleted, not set, {of}", (SESSION, DELETE, None), name=name)
            ask(f"deleted, unknown, {of}", ("nope", DELETE, None), name=name)
            ask(f"one key twice, {of}", (SESSION, SET, "50000"), (SESSION, SET, "50000"), name=name)
            ask(f"nothing, {of}", name=name)
            ask(f"one of two is wrong, {of}", (SESSION, SET, "50000"), (HEARTBEAT, SET, "0"), name=name)
            transcript.ask(f"null, replaced, {of}", replace((GROUP, name, [(SESSION, None)])), 2)
            transcript.ask(f"nothing, replaced, {of}", replace((GROUP, name, [])), 2)
        both = (GROUP, transcript.topic, [(SESSION, SET, "50000")])
        transcript.ask("one group twice", change(both, both), 1)

    same_answers(script)


def test_settings_of_groups_are_described_with_their_sources(same_answers: SameAnswers) -> None:
    of_broker = "group.consumer.assignment.interval.ms"
    keys = [name for name in VALUES if name.startswith(("consumer.", "share.", "streams."))]
    alike = [name for name in keys if "heartbeat" not in name]
    """The heartbeat intervals have another default here."""

    def script(transcript: Transcript) -> None:
        group = transcript.topic
        for version in range(1, 5):
            tell(transcript, "a group that does not exist", GROUP, group, *alike, version=version)
        changes = {SESSION: "50000", ASSIGNMENT: "70", "share.isolation.level": "read_committed"}
        changes["share.renew.acknowledge.enable"] = "FALSE"
        changes["share.auto.offset.reset"] = "by_duration:PT1H"
        transcript.ask("set", change((GROUP, group, [(name, SET, value) for name, value in changes.items()])), 1)
        settle(transcript, GROUP, group, ASSIGNMENT, "70")
        tell(transcript, "a group with settings", GROUP, group, *alike)
        try:
            transcript.ask("for all brokers", change((BROKER, "", [(of_broker, SET, "800")])), 1)
            settle(transcript, BROKER, "1", of_broker, "800")
            tell(transcript, "under a dynamic setting", GROUP, group, ASSIGNMENT)
            tell(transcript, "from a dynamic setting", GROUP, f"{group}-another", ASSIGNMENT)
            for value in ("15001", "-1", "x"):
                transcript.ask(f"the broker's to {value}", change((BROKER, "1", [(of_broker, SET, value)])), 1)
        finally:
            transcript.ask("back", change((BROKER, "", [(of_broker, DELETE, None)])), 1)
            settle(transcript, BROKER, "1", of_broker, "1000")
        listed = transcript.ask_quietly(ListConfigResourcesRequest(resource_types=[GROUP]), 1).config_resources
        names = {resource.resource_name for resource in listed}
        are_listed = {name: name in names for name in (group, f"{group}-another")}
        transcript.note("listed", are_listed, api="ListConfigResources")
        transcript.ask("replaced", replace((GROUP, group, [(SESSION, "55000")])), 2)
        settle(transcript, GROUP, group, ASSIGNMENT, "1000")
        tell(transcript, "a group whose settings were replaced", GROUP, group, *alike)
        transcript.ask("deleted", change((GROUP, group, [(SESSION, DELETE, None)])), 1)
        settle(transcript, GROUP, group, SESSION, "45000")
        listed = transcript.ask_quietly(ListConfigResourcesRequest(resource_types=[GROUP]), 1).config_resources
        transcript.note(
            "listed, without settings",
            {"is_listed": group in [resource.resource_name for resource in listed]},
            api="ListConfigResources",
        )
        transcript.ask("without a name", describe(GROUP, ""), 4)
        transcript.ask("an unknown key", describe(GROUP, group, "nope"), 4)

    same_answers(script)
