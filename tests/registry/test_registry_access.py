"""Which requests a registry serves: pages of browsers, users of the broker, and what they may do."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping

import pytest

from kmini.broker.security.acls import AclBinding
from kmini.broker.security.resources import AclOperation, PatternType, PermissionType, ResourceType
from kmini.protocol import scram
from support.registry_api import V1_JSON, RegistryApi

A = b'{"schema": "{\\"fields\\": []}"}'
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="a:nn" user_bob="bob";'


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
)
def test_a_page_of_another_site_is_refused(api: RegistryApi, headers: Mapping[str, str]) -> None:
    for verb, body in (("GET", None), ("POST", A)):
        reply = api.send(verb, "/subjects/s/versions", body, {"Content-Type": V1_JSON, **headers})
        assert (reply.status, reply.error_code) == (403, 403)
    assert api.get("/subjects").document == []


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1", "[::1]:8081"])
def test_a_name_of_this_machine_is_served(api: RegistryApi, host: str) -> None:
    assert api.send("GET", "/subjects", None, {"Host": host, "Origin": f"http://{host}"}).status == 200


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


@pytest.fixture(scope="module")
def served_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryApi]:
    """A broker with users, of which Root may do everything."""
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ann",
    }
    api = RegistryApi(str(tmp_path_factory.mktemp("users")), config=config).start()
    yield api
    api.end()


@pytest.fixture
def users(served_users: RegistryApi) -> Iterator[RegistryApi]:
    yield served_users
    served_users.control.reset()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("ann", "wrong"),
        basic("ann", ""),
        basic("", "a:nn"),
        basic("eve", "a:nn"),
        basic("ann\0bob", "bob"),
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!"},
        {"Authorization": "Basic /w=="},
        {"Authorization": "Bearer a:nn"},
    ],
)
def test_a_client_that_is_no_user_is_401(users: RegistryApi, headers: Mapping[str, str]) -> None:
    reply = users.send("GET", "/subjects", None, headers)
    assert (reply.status, reply.document) == (401, {"error_code": 401, "message": "Unauthorized"})
    assert reply.headers["WWW-Authenticate"].startswith("Basic realm=")


def test_a_user_of_the_broker_is_a_user_of_the_registry(users: RegistryApi) -> None:
    ann = basic("ann", "a:nn")
    assert users.send("POST", "/subjects/s/versions", A, {**ann, "Content-Type": V1_JSON}).status == 200
    assert users.send("GET", "/subjects", None, ann).document == ["s"]


def allow(users: RegistryApi, operation: AclOperation) -> None:
    """Let bob do an operation on the topic."""
    rule = AclBinding(
        ResourceType.TOPIC, PatternType.LITERAL, "_schemas", "User:bob", "*", operation, PermissionType.ALLOW
    )
    users.control.call(lambda: users.control.any_broker.controller.acls.add([rule]))


def test_a_user_needs_read_on_the_topic_to_read_and_write_to_write(users: RegistryApi) -> None:
    bob = {**basic("bob", "bob"), "Content-Type": V1_JSON}
    refused = users.send("GET", "/subjects", None, bob)
    assert (refused.status, refused.document) == (
        403,
        {"error_code": 40301, "message": "User bob is denied operation Read on the topic _schemas"},
    )
    allow(users, AclOperation.READ)
    assert users.send("GET", "/subjects", None, bob).status == 200
    assert users.send("POST", "/compatibility/subjects/s/versions", A, bob).status == 200
    assert users.send("POST", "/subjects/s/versions", A, bob).error_code == 40301
    allow(users, AclOperation.WRITE)
    assert users.send("POST", "/subjects/s/versions", A, bob).status == 200


def give_bob(users: RegistryApi, password: str) -> None:
    """Store a SCRAM credential of bob."""
    mechanism, salt = scram.SHA_512, password.encode()
    salted = scram.salted_password(mechanism, password, salt, 4096)
    credential = scram.credential_of(mechanism, salted, salt, 4096)

    def store() -> None:
        controller = users.control.any_broker.controller
        controller.alter_scram_credentials({("bob", mechanism.wire_code): credential}, [])

    users.control.call(store)


def test_a_user_with_a_scram_credential_is_one_too(users: RegistryApi) -> None:
    give_bob(users, "secret")
    allow(users, AclOperation.READ)
    for _ in range(2):
        assert users.send("GET", "/subjects", None, basic("bob", "secret")).status == 200
    assert users.send("GET", "/subjects", None, basic("bob", "bob")).status == 200  # the password of PLAIN
    assert users.send("GET", "/subjects", None, basic("bob", "other")).status == 401


def test_a_password_is_right_until_it_is_changed_and_hashed_once(
    users: RegistryApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    hash_it = scram.salted_password

    def counted(mechanism: scram.Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
        hashed.append(password)
        return hash_it(mechanism, password, salt, iterations)

    give_bob(users, "old")
    allow(users, AclOperation.READ)
    monkeypatch.setattr(scram, "salted_password", counted)
    assert [users.send("GET", "/subjects", None, basic("bob", "old")).status for _ in range(3)] == [200] * 3
    assert hashed == ["old"]
    monkeypatch.undo()
    give_bob(users, "new")
    assert [users.send("GET", "/subjects", None, basic("bob", word)).status for word in ("old", "new")] == [401, 200]
