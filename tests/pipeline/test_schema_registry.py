"""The pipeline's client of a schema registry, beside kmini's own registry."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from kmini.pipeline.schema_registry import RegistryError, SchemaRegistry
from kmini.registry.schema_reading import SchemaReader
from support.registry_api import RegistryApi

pytestmark = pytest.mark.sockets

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="a:n@n";'
FIRST = '{"type":"record","name":"A","fields":[]}'
SECOND = '{"type":"record","name":"A","fields":[{"name":"n","type":"int","default":0}]}'
STRICT = '{"type":"record","name":"A","fields":[{"name":"n","type":"int"}]}'
USER = {"basic.auth.user.info": "ann:a:n@n"}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry that asks for users."""
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    }
    api = RegistryApi(str(tmp_path_factory.mktemp("users")), config=config).start(SchemaReader())
    yield api.url
    api.end()


def registry(url: str, **settings: str) -> SchemaRegistry:
    return SchemaRegistry({"schema.registry.url": url, **settings})


def test_a_user_is_that_of_the_settings_or_of_the_url(url: str) -> None:
    for client in (registry(url, **USER), registry(url.replace("://", "://ann:a%3An%40n@"))):
        assert client.url == url
        assert client.versions("nothing") == []
    with pytest.raises(RegistryError) as refused:
        registry(url.replace("://", "://ann:wrong@") + "/").versions("nothing")
    assert str(refused.value) == f"the schema registry at {url} answers 401: Unauthorized"


def test_all_versions_of_a_subject_are_found_and_the_latest_is_one_that_is_not_deleted(url: str) -> None:
    client = registry(url, **USER)
    assert client.id_of("a/b value", FIRST) is None
    ids = [client.register("a/b value", schema) for schema in (FIRST, SECOND, FIRST)]
    assert ids[2] == ids[0] == client.id_of("a/b value", FIRST)
    with SchemaRegistryClient({"url": url, **USER}) as other:
        other.delete_version("a/b value", 2)
    assert [(one.version, one.id, one.text) for one in client.versions("a/b value")] == [
        (1, ids[0], FIRST),
        (2, ids[1], SECOND),
    ]
    assert client.latest("a/b value").version == 1
    with pytest.raises(RegistryError, match="answers 409: Schema being registered is incompatible"):
        client.register("a/b value", STRICT)


def test_types_of_other_subjects_are_written_in_a_schema(url: str) -> None:
    outer = '{"type":"record","name":"B","fields":[{"name":"a","type":"A"}]}'
    with SchemaRegistryClient({"url": url, **USER}) as other:
        other.register_schema("inner", Schema(FIRST, "AVRO"))
        other.register_schema("outer", Schema(outer, "AVRO", [SchemaReference("A", "inner", 1)]))
    (found,) = registry(url, **USER).versions("outer")
    assert json.loads(found.text)["fields"][0]["type"] == json.loads(FIRST)


@pytest.mark.parametrize("url", ["r:8081", "ftp://r:8081", "http://", "file:///etc/passwd"])
def test_an_address_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(RegistryError, match=r"schema.registry.url is no http://HOST:PORT or https://HOST:PORT"):
        registry(url)
