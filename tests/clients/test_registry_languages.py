"""Clients of a schema registry for Java and Go, as they are, against kmini's registry.

For Java: Confluent's `CachedSchemaRegistryClient` and the serializers of Flink, which use it; Confluent's own
serializers are not among the packages that the tests can fetch. For Go: franz-go's client and Confluent's, with
serializers.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini import Broker
from support import apache_kafka, registry_clients

PROGRAMS = Path(__file__).with_name("registry_clients")
TIMEOUT_S = 120

JAVA_SAYS = """\
read: 42 7
subjects: [orders-value]
same id: true
text: true
newer fits: true
newer: 2 [1, 2]
wrong fits: false
why: true
refused: 409 40901
no subject: 404 40401
level: NONE NONE
mode: READONLY READONLY
deleted: [1, 2] [1, 2]
left: []
"""

GO_SAYS = """\
franz created: 1 true
franz by id: true
franz fits: false
franz refused: true 409 40901
franz read: 7
franz level: FULL <nil>
franz deleted: [1]
confluent avro: 8
confluent json: 9
confluent subjects: [avro-value json-value]
confluent fits: false
confluent refused: true
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"], registry=True) as broker:
        yield broker


def printed(*command: str) -> str:
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.usefixtures("need_kafka")
def test_the_client_and_the_serializers_for_java_do_what_they_do_with_confluents_registry(broker: Broker) -> None:
    if why := registry_clients.why_no_java():
        pytest.skip(why)
    java = apache_kafka.java_command("-XX:TieredStopAtLevel=1", beside=registry_clients.folder())
    program = str(PROGRAMS / "RegistryClient.java")
    assert broker.registry_url is not None
    assert printed(*java, program, broker.bootstrap_servers, broker.registry_url) == JAVA_SAYS


def test_the_clients_and_the_serializers_for_go_do_what_they_do_with_confluents_registry(broker: Broker) -> None:
    if why := registry_clients.why_no_go():
        pytest.skip(why)
    assert broker.registry_url is not None
    assert printed(str(registry_clients.go_program()), broker.registry_url) == GO_SAYS
