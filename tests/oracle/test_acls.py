"""Every permission that a handler states, against Apache Kafka with StandardAuthorizer.

One user for each permission has all the rights of its API but that one; another user has all of them. Both brokers
answer their requests with the same error codes. Kafka's own tools set the rules and the passwords.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Set
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.api.registry import loaded
from kmini.broker.handlers import HANDLERS
from kmini.broker.security.acls import AclBinding
from kmini.broker.security.permission_kinds import Scope
from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol import messages as m
from kmini.protocol import scram
from kmini.protocol.errors import NONE, SaslAuthenticationFailed
from kmini.protocol.uuids import format_uuid
from kmini.testing import ConnectionClosed, Wire
from support.broker.access_rules import STANDARD, acl
from support.broker.permission_requests import (
    GROUP,
    ID,
    NAMES,
    NEEDS,
    REFUSALS,
    TOPIC,
    Need,
    codes,
    permissions_of,
    request_for,
)
from support.broker.token_requests import SECRET
from support.broker.token_requests import creation as token_creation
from support.broker.token_talk import TokenTalk
from support.java_clients import JavaClients
from support.java_peer import Finished, JavaPeer
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.until import until

LINES = [
    need
    for need in NEEDS
    if need.permission.scope != Scope.SHOWN and (need.api, need.permission.operation.name) != ("Metadata", "CREATE")
]
MUTATING = ("DeleteTopics", "DeleteGroups", "UnregisterBroker")
"""Asked last: they take away what the others are about."""

SERVED_OTHERWISE = {
    "DescribeConfigs DESCRIBE_CONFIGS on GROUP": "groups have no settings here",
    "AlterConfigs ALTER_CONFIGS on GROUP": "groups have no settings here",
    "IncrementalAlterConfigs ALTER_CONFIGS on GROUP": "groups have no settings here",
    "ShareFetch READ on GROUP": "without a wait Apache Kafka names no partition whose state it has not read",
    "ShareFetch READ on TOPIC": "as above",
    "TxnOffsetCommit WRITE on TRANSACTIONAL_ID": "the transaction may still be ending, or not be there any more",
    "TxnOffsetCommit READ on GROUP": "as above",
    "TxnOffsetCommit READ on TOPIC": "as above",
}
"""Where what is allowed is answered differently, for reasons that have nothing to do with rights."""

USERS = [
    "admin",
    "alice",
    "bob",
    "carol",
    "dave",
    *(f"without-{n}" for n in range(len(LINES))),
    *(f"with-{n}" for n in range(len(LINES))),
]


def settings() -> dict[str, str]:
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{plain} username="admin" password="admin-secret" {users};'
        ),
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{scram};",
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{scram};",
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            ' unsecuredLoginStringClaim_sub="admin" unsecuredValidatorRequiredScope="write"'
            ' unsecuredValidatorAllowableClockSkewMs="5000";'
        ),
        "authorizer.class.name": STANDARD,
        "super.users": "User:admin;User:ANONYMOUS",
        "delegation.token.secret.key": SECRET,
    }


@pytest.fixture(scope="module")
def servers(need_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServerProcess]]:
    """Both, with the same settings."""
    started = {}
    for name, command in (("kmini", kmini_command), ("kafka", kafka_command)):
        directory = tmp_path_factory.mktemp(name)
        started[name] = ServerProcess(command(directory / "data", settings()), directory / "server.log")
    yield started
    for process in started.values():
        process.stop()


def log_in(server: ServerProcess, user: str, password: str | None = None) -> Wire:
    wire = Wire(server.bootstrap_servers, timeout_s=8)
    assert wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
    token = f"\0{user}\0{password or f'{user}-secret'}".encode()
    answer = wire.ask(m.SaslAuthenticateRequest(auth_bytes=token))
    assert answer.error_code == 0, answer.error_message
    return wire


def ask(server: ServerProcess, user: str, request: Any, version: int | None = None) -> list[int] | str:
    """The error codes of the answer."""
    with log_in(server, user) as wire:
        try:
            return sorted(codes(wire.ask(request, version)))
        except ConnectionClosed:
            return "closed"
        except TimeoutError:
            return "no answer"


def creation(rule: AclBinding) -> m.CreateAclsRequest.Creation:
    names = ("resource_type", "resource_pattern_type", "resource_name", "principal", "host", "operation")
    return m.CreateAclsRequest.Creation(**dict(zip((*names, "permission_type"), rule, strict=True)))


def rules() -> Iterator[AclBinding]:
    for number, line in enumerate(LINES):
        for permission in permissions_of(line.api):
            if permission.scope == Scope.SUFFICES and permission != line.permission:
                continue
            users = [f"with-{number}"] if permission == line.permission else [f"with-{number}", f"without-{number}"]
            for user in users:
                kind = permission.resource_type
                yield acl(permission.operation, kind, NAMES[kind], principal=f"User:{user}")


def prepare(server: ServerProcess) -> bytes:
    """Rules, the topic and the coordinators; returns the topic's id."""
    with log_in(server, "admin") as wire:
        topic = m.CreateTopicsRequest.Topic(name=TOPIC, num_partitions=1, replication_factor=1)
        (created,) = wire.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
        assert created.error_code == 0
        results = wire.ask(m.CreateAclsRequest(creations=[creation(rule) for rule in rules()])).results
        assert {result.error_code for result in results} == {0}
        for _ in range(600):  # until the coordinators are there and the last rule is known
            answers = [
                wire.ask(m.FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key]))
                for kind, key in enumerate((GROUP, ID, f"{GROUP}:{format_uuid(created.topic_id)}:0"))
            ]
            found = m.OffsetFetchRequest.Group(group_id=GROUP, topics=[])
            answers.append(wire.ask(m.OffsetFetchRequest(group_id=GROUP, groups=[found])))
            # short: no transaction begins
            answers.append(wire.ask(m.InitProducerIdRequest(transactional_id="warm-up", transaction_timeout_ms=1000)))
            rights = wire.ask(m.DescribeAclsRequest(**EVERYTHING)).resources
            if not any(code for answer in answers for code in codes(answer)) and sum(
                len(resource.acls) for resource in rights
            ) == len({*rules()}):
                break
    return created.topic_id


EVERYTHING = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


def version_of(line: Need) -> int | None:
    """The version to ask in: the newest that is served, but where the right is about older ones."""
    newest = next(handler for handler in loaded(HANDLERS).values() if handler.request.name == line.api)
    if line.api != "AddPartitionsToTxn":
        return newest.max_version
    return 3 if line.permission.resource_type is not ResourceType.CLUSTER else None


def test_every_permission_is_kafkas(servers: dict[str, ServerProcess]) -> None:
    order = sorted(enumerate(LINES), key=lambda item: item[1].api in MUTATING)
    found: dict[str, dict[str, Any]] = {}
    for name, server in servers.items():
        topic_id = prepare(server)
        for number, line in order:
            for user in (f"without-{number}", f"with-{number}"):
                permission = line.permission
                request = request_for(line.api, permission.resource_type, topic_id)
                right = f"{permission.operation.name} on {permission.resource_type.name}"
                what = f"{line.api} {right}, {user.partition('-')[0]}"
                found.setdefault(what, {})[name] = ask(server, user, request, version_of(line))
    for what in SERVED_OTHERWISE:
        for name, answered in found.pop(f"{what}, with").items():
            assert isinstance(answered, list), (what, name, answered)
            assert not REFUSALS & {*answered}, (what, name, answered)
    different = {what: answers for what, answers in found.items() if answers["kmini"] != answers["kafka"]}
    assert not different, "\n".join(f"{what}: {answers}" for what, answers in different.items())


# --- logging in, and managing rules and passwords: answer by answer


def say(wire: Wire, request: Any, version: int | None = None) -> Any:
    """What of an answer must be the same: codes, and the words that clients show."""
    try:
        answer = wire.ask(request, version)
    except (ConnectionClosed, TimeoutError) as error:
        return type(error).__name__
    if isinstance(answer, m.SaslHandshakeResponse):
        return answer.error_code, sorted(answer.mechanisms)
    if isinstance(answer, m.SaslAuthenticateResponse):
        return answer.error_code, answer.error_message, answer.session_lifetime_ms
    return sorted(codes(answer))


def token(text: str) -> m.SaslAuthenticateRequest:
    return m.SaslAuthenticateRequest(auth_bytes=text.encode())


RIGHT = token("\0alice\0alice-secret")
LOGINS: dict[str, list[tuple[Any, int | None]]] = {
    "plain": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (RIGHT, 2), (m.MetadataRequest(topics=[]), 12)],
    "plain with our own id": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("alice\0alice\0alice-secret"), 2)],
    "plain with another's id": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("bob\0alice\0alice-secret"), 2)],
    "wrong password": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("\0alice\0x"), 2), (RIGHT, 2)],
    "unknown user": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("\0nobody\0x"), 2)],
    "no user": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("\0\0x"), 2)],
    "no password": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("\0alice\0"), 2)],
    "too few parts": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("alice"), 2)],
    "too many parts": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (token("\0a\0b\0c"), 2)],
    "unknown mechanism": [(m.SaslHandshakeRequest(mechanism="NOPE"), 1), (RIGHT, 2)],
    "mechanism in lower case": [(m.SaslHandshakeRequest(mechanism="plain"), 1), (RIGHT, 2)],
    "no handshake": [(RIGHT, 2)],
    "metadata first": [(m.MetadataRequest(topics=[]), 12)],
    "two handshakes": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)] * 2,
    "once more afterwards": [
        (m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (RIGHT, 2), (m.SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (RIGHT, 2), (m.MetadataRequest(topics=[]), 12),
    ],
    "scram, nonsense": [(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1), (token("nonsense"), 2)],
    "versions": [(m.SaslHandshakeRequest(mechanism="PLAIN"), 1), (RIGHT, 0), (m.MetadataRequest(topics=[]), 12)],
}  # fmt: skip


@pytest.mark.parametrize("name", LOGINS)
def test_logging_in_is_answered_as_by_kafka(servers: dict[str, ServerProcess], name: str) -> None:
    said = {}
    for server, process in servers.items():
        with Wire(process.bootstrap_servers, timeout_s=8) as wire:
            said[server] = [say(wire, request, version) for request, version in LOGINS[name]]
    assert said["kmini"] == said["kafka"]


def upsertion(**changed: Any) -> m.AlterUserScramCredentialsRequest.Upsertion:
    fields = {"name": "zoe", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": bytes(32)}
    return m.AlterUserScramCredentialsRequest.Upsertion(**{**fields, **changed})


def managed() -> Iterator[tuple[str, Any]]:
    """Requests in their order. Left out: rules with ANY or MATCH in them, which Kafka answers with
    UNKNOWN_SERVER_ERROR, and a user with a good and a bad credential, which Kafka takes for a doubled one.
    """
    Deletion = m.AlterUserScramCredentialsRequest.Deletion
    for name, upsertions, deletions in (
        ("set", [upsertion()], []),
        ("set again", [upsertion(iterations=5000)], []),
        ("no name", [upsertion(name="")], []),
        ("too few", [upsertion(iterations=4095)], []),
        ("too many", [upsertion(iterations=16385)], []),
        ("most", [upsertion(iterations=16384)], []),
        ("no such mechanism", [upsertion(mechanism=3)], []),
        ("mechanism 0", [upsertion(mechanism=0)], []),
        ("twice", [upsertion(), upsertion()], []),
        ("set and deleted", [upsertion()], [Deletion(name="zoe", mechanism=1)]),
        ("of two users one is bad", [upsertion(), upsertion(name="yan", iterations=1)], []),
        ("nothing there", [], [Deletion(name="nobody", mechanism=1)]),
        ("of no mechanism", [], [Deletion(name="zoe", mechanism=9)]),
        ("deleted", [], [Deletion(name="zoe", mechanism=1)]),
    ):
        yield f"password: {name}", m.AlterUserScramCredentialsRequest(upsertions=upsertions, deletions=deletions)
    User = m.DescribeUserScramCredentialsRequest.User
    for names in (["zoe"], ["zoe", "zoe"], ["nobody"], [""], []):
        yield f"described: {names}", m.DescribeUserScramCredentialsRequest(users=[User(name=name) for name in names])
    good = acl(AclOperation.READ, ResourceType.TOPIC, "managed", principal="User:zoe")
    for name, changed in (
        ("good", {}),
        ("again", {}),
        ("no colon", {"principal": "zoe"}),
        ("no name", {"resource_name": ""}),
        ("another cluster", {"resource_type": 4, "resource_name": "mine"}),
        ("prefix", {"pattern_type": 4}),
        ("unknown type", {"resource_type": 0}),
        ("operation that a topic does not have", {"operation": int(AclOperation.CLUSTER_ACTION)}),
        ("a group's pattern", {"resource_type": 3, "resource_name": "*"}),
        ("another kind of principal", {"principal": "Group:zoe"}),
        ("no host", {"host": ""}),
    ):
        yield f"rule: {name}", m.CreateAclsRequest(creations=[creation(good._replace(**changed))])
    yield "rule: good and bad", m.CreateAclsRequest(creations=[creation(good), creation(good._replace(principal=""))])
    for name, changed in (
        ("its name", {"resource_name_filter": "managed", "resource_type_filter": 2}),
        ("what falls under it", {"resource_name_filter": "managed-2", "pattern_type_filter": 2}),
        ("literal", {"pattern_type_filter": 3, "principal_filter": "User:zoe"}),
        ("nothing", {"principal_filter": "User:nobody"}),
        ("unknown type", {"resource_type_filter": 0}),
    ):
        yield f"told: {name}", m.DescribeAclsRequest(**{**EVERYTHING, **changed})
        filters = [m.DeleteAclsRequest.Filter(**{**EVERYTHING, **changed})]
        yield f"deleted: {name}", m.DeleteAclsRequest(filters=filters)


def test_rules_and_passwords_are_managed_as_by_kafka(servers: dict[str, ServerProcess]) -> None:
    said: dict[str, dict[str, Any]] = {}
    for server, process in servers.items():
        for what, request in managed():
            with log_in(process, "admin") as wire:
                said.setdefault(what, {})[server] = say(wire, request)
    different = {what: answers for what, answers in said.items() if answers["kmini"] != answers["kafka"]}
    assert not different, "\n".join(f"{what}: {answers}" for what, answers in different.items())


def proves(process: ServerProcess, user: str, salted: bytes) -> int:
    """Log in with SCRAM-SHA-256 and a salted password; return the error code."""
    with Wire(process.bootstrap_servers, timeout_s=8) as wire:
        assert wire.ask(m.SaslHandshakeRequest(mechanism=scram.SHA_256.name)).error_code == 0
        first = scram.client_first(user, scram.new_nonce())
        answer = wire.ask(token(first.gs2_header + first.bare))
        if answer.error_code == 0:
            server_first = bytes(answer.auth_bytes).decode()
            without_proof = scram.client_final("n,,", scram.parse_server_first(server_first.encode()).nonce)
            signed = scram.auth_message(first.bare, server_first, without_proof)
            proof = scram.client_proof(scram.SHA_256, salted, signed)
            answer = wire.ask(m.SaslAuthenticateRequest(auth_bytes=scram.with_proof(without_proof, proof)))
        return int(answer.error_code)


CREDENTIALS = {
    "unsalted": (b"", bytes(32)),
    "short-salt": (b"s", bytes(32)),
    "long-salt": (b"s" * 5_000, bytes(32)),
    "short-password": (b"salt", b"abc"),
    "long-password": (b"salt", b"p" * 500),
    "empty-password": (b"salt", b""),
    "huge-salt": (bytes(9 << 20), bytes(32)),
}
REFUSED = {"empty-password", "huge-salt"}
"""Credentials that Apache Kafka answers with UNKNOWN_SERVER_ERROR, which each get an error of their own from us."""


def test_a_login_with_a_salt_or_salted_password_of_any_length_is_taken_as_by_kafka(
    servers: dict[str, ServerProcess],
) -> None:
    Deletion = m.AlterUserScramCredentialsRequest.Deletion
    for process in servers.values():
        with log_in(process, "admin") as wire:
            for name, (salt, salted) in CREDENTIALS.items():
                wanted = [upsertion(name=name, salt=salt, salted_password=salted)]
                (result,) = wire.ask(m.AlterUserScramCredentialsRequest(upsertions=wanted, deletions=[])).results
                assert (result.error_code != 0) == (name in REFUSED), (process.command, result)
            wait_for_users(process, CREDENTIALS.keys() - REFUSED)
            assert all(proves(process, user, b"wrong") for user in CREDENTIALS)
            gone = [Deletion(name=name, mechanism=1) for name in CREDENTIALS.keys() - REFUSED]
            wire.ask(m.AlterUserScramCredentialsRequest(upsertions=[], deletions=gone))
            wait_for_users(process, set())


def wait_for_users(process: ServerProcess, users: Set[str]) -> None:
    """Log in with all until it works for these only: Apache Kafka's broker learns of a change after the answer."""

    def proven() -> set[str]:
        return {user for user, (_, salted) in CREDENTIALS.items() if salted and not proves(process, user, salted)}

    until(lambda: proven() == users, f"logins that work for {users} only", poll_s=0.05)


# --- Kafka's own tools

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture
def tool(java: JavaPeer, servers: dict[str, ServerProcess], tmp_path: Path) -> Callable[..., Finished]:
    """Run a tool against kmini, as a user, or with a delegation token in place of user and password."""

    def run(
        main: str,
        *arguments: object,
        user: str = "admin",
        password: str = "",
        mechanism: str = "PLAIN",
        is_token: bool = False,
    ) -> Finished:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        properties = tmp_path / f"{user}.properties"
        properties.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
            f'username="{user}" password="{password or f"{user}-secret"}"{" tokenauth=true" if is_token else ""};\n'
        )
        connection = ("--bootstrap-server", servers["kmini"].bootstrap_servers, "--command-config", properties)
        return java.run(main, *connection, *arguments)

    return run


def test_acl_command_adds_lists_and_removes_rules(tool: Callable[..., Finished]) -> None:
    resource = ("--topic", "of-the-tool")
    who = ("--allow-principal", "User:alice", "--operation", "Read", "--operation", "Write")
    added = tool(ACL_COMMAND, "--add", *who, *resource)
    assert added.exit == 0, added.stdout + added.stderr
    listed = tool(ACL_COMMAND, "--list", *resource).stdout
    assert "name=of-the-tool" in listed
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW" in listed
    removed = tool(
        ACL_COMMAND, "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Read", *resource
    )
    assert removed.exit == 0, removed.stdout + removed.stderr
    listed = tool(ACL_COMMAND, "--list", *resource).stdout
    assert "operation=WRITE" in listed
    assert "operation=READ" not in listed


def test_acl_command_is_refused_without_the_right_to_alter_the_cluster(tool: Callable[..., Finished]) -> None:
    every_topic = ("--allow-principal", "User:alice", "--operation", "All", "--topic", "*")
    finished = tool(ACL_COMMAND, "--add", *every_topic, user="alice")
    assert "ClusterAuthorizationException" in finished.stdout + finished.stderr
    assert "principal=User:alice, host=*, operation=ALL" not in tool(ACL_COMMAND, "--list").stdout


def test_config_command_makes_describes_and_removes_passwords(tool: Callable[..., Finished]) -> None:
    user = ("--entity-type", "users", "--entity-name", "carol")
    passwords = "SCRAM-SHA-256=[iterations=4096,password=first],SCRAM-SHA-512=[password=second]"
    altered = tool(CONFIG_COMMAND, "--alter", *user, "--add-config", passwords)
    assert altered.exit == 0, altered.stdout + altered.stderr
    described = tool(CONFIG_COMMAND, "--describe", *user).stdout
    assert "SCRAM-SHA-256=iterations=4096" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    assert "first" not in described
    for mechanism, password in (("SCRAM-SHA-256", "first"), ("SCRAM-SHA-512", "second")):
        finished = tool(TOPIC_COMMAND, "--list", user="carol", password=password, mechanism=mechanism)
        assert finished.exit == 0, finished.stdout + finished.stderr
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):  # both, or a test that lists all users would find her
        removed = tool(CONFIG_COMMAND, "--alter", *user, "--delete-config", mechanism)
        assert removed.exit == 0, removed.stdout + removed.stderr
        assert mechanism not in tool(CONFIG_COMMAND, "--describe", *user).stdout


# --- delegation tokens (KIP-48)


def test_delegation_tokens_are_made_kept_and_logged_in_with_as_by_kafka(servers: dict[str, ServerProcess]) -> None:
    talks = {}
    for server, process in servers.items():
        talk = talks[server] = TokenTalk(process.bootstrap_servers, partial(log_in, process))
        talk.about_requests()
        talk.about_logins()
    ours, theirs = talks["kmini"].said, talks["kafka"].said
    assert len(ours) > 50
    assert (talks["kmini"].code_of_expired, talks["kafka"].code_of_expired) == (SaslAuthenticationFailed.code, NONE)
    told = {what: (ours.get(what), theirs.get(what)) for what in {*ours, *theirs}}
    different = {what: answers for what, answers in told.items() if answers[0] != answers[1]}
    assert not different, "\n".join(f"{what}: {answers}" for what, answers in different.items())


DELEGATION_TOKEN_COMMAND = "org.apache.kafka.tools.DelegationTokenCommand"


def test_delegation_token_command_makes_renews_lists_and_ends_a_token(tool: Callable[..., Finished]) -> None:
    def run(*arguments: str) -> str:
        finished = tool(DELEGATION_TOKEN_COMMAND, *arguments, user="carol")
        assert finished.exit == 0, finished.stdout + finished.stderr
        return finished.stdout

    made = run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:dave")
    token_id, hmac = re.findall(r"^(\S{22})\s+(\S{88})\s", made, re.MULTILINE)[0]
    assert "User:carol" in made
    assert token_id in run("--describe", "--owner-principal", "User:carol")
    assert "Completed renew operation" in run("--renew", "--renew-time-period", "3600000", "--hmac", hmac)
    listing = (TOPIC_COMMAND, "--list")
    as_token = {"user": token_id, "password": hmac, "mechanism": "SCRAM-SHA-512", "is_token": True}
    assert tool(*listing, **as_token).exit == 0
    assert "Completed expire operation" in run("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert token_id not in run("--describe", "--owner-principal", "User:carol")
    refused = tool(*listing, **as_token)
    assert refused.exit == 1
    assert "SaslAuthenticationException" in refused.stdout + refused.stderr


def test_a_java_client_produces_with_a_token_and_gets_no_other_token(
    java: JavaPeer, servers: dict[str, ServerProcess], tool: Callable[..., Finished]
) -> None:
    server = servers["kmini"]
    with log_in(server, "admin") as wire:
        token = wire.ask(token_creation())
    hmac = base64.b64encode(token.hmac).decode()
    login = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.token_id}" password="{hmac}" tokenauth="true";'
    )
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_jaas_config": login,
        "enable_idempotence": "false",  # the examples of other tests know the ids that producers get
    }
    with JavaClients(java).producer(server.bootstrap_servers, **settings) as producer:
        offsets = [producer.send("with-a-token", value) for value in ("one", "two")]
    assert offsets == [0, 1]
    finished = tool(
        *(DELEGATION_TOKEN_COMMAND, "--create", "--max-life-time-period", "-1"),
        user=token.token_id,
        password=hmac,
        mechanism="SCRAM-SHA-256",
        is_token=True,
    )
    assert finished.exit == 1
    assert "Delegation Token requests are not allowed" in finished.stdout + finished.stderr


# --- tokens (KIP-255)


def unsecured(header: object = {"alg": "none"}, signature: str = "", **changed: Any) -> str:
    """An unsecured token, of alice and for an hour unless told otherwise; None takes a claim away."""
    now_s = int(time.time())
    claims = {"sub": "alice", "iat": now_s - 60, "exp": now_s + 3600, "scope": ["read", "write"]} | changed
    said = {name: value for name, value in claims.items() if value is not None}
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, said))
    return f"{'.'.join(parts)}.{signature}"


def shown(bearer: str, authorization_id: str = "", scheme: str = "Bearer", more: str = "") -> bytes:
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth={scheme} {bearer}\x01{more}\x01".encode()


def first_messages() -> dict[str, bytes]:
    now_s = int(time.time())
    return {
        "a token": shown(unsecured()),
        "a scope as text": shown(unsecured(scope=" write ")),
        "scopes as text": shown(unsecured(scope="read write")),
        "the user's own authorization id": shown(unsecured(), "alice"),
        "another authorization id": shown(unsecured(), "bob"),
        "another scheme": shown(unsecured(), scheme="Basic"),
        "the scheme in small letters": shown(unsecured(), scheme="bearer"),
        "no token": b"n,,\x01\x01",
        "nothing": b"",
        "no message of this mechanism": b"\0alice\0wonderland",
        "another channel binding": shown(unsecured()).replace(b"n,", b"y,", 1),
        "expired": shown(unsecured(exp=now_s - 30)),
        "expired within the skew": shown(unsecured(exp=now_s - 1)),
        "of the future": shown(unsecured(iat=now_s + 30)),
        "of the future, within the skew": shown(unsecured(iat=now_s + 2)),
        "without an end": shown(unsecured(exp=None)),
        "without a time of issue": shown(unsecured(iat=None)),
        "an end that is text": shown(unsecured(exp="soon")),
        "an end before its issue": shown(unsecured(iat=now_s + 3, exp=now_s + 2)),
        "without a user": shown(unsecured(sub=None)),
        "a user that is a number": shown(unsecured(sub=7)),
        "a blank user": shown(unsecured(sub=" ")),
        "without the scope": shown(unsecured(scope="read")),
        "without any scope": shown(unsecured(scope=None)),
        "signed": shown(unsecured({"alg": "HS256"}, "c2lnbmVk")),
        "none, and a signature": shown(unsecured(signature="c2lnbmVk")),
        "without an algorithm": shown(unsecured({})),
        "two parts": shown("e30.e30"),
        "no base64": shown("a.b."),
    }


def answers_to_tokens(server: ServerProcess) -> dict[str, object]:
    """Error codes, what clients are told, and whether the session ends, of each exchange."""
    answers: dict[str, object] = {}
    for what, message in first_messages().items():
        with Wire(server.bootstrap_servers, timeout_s=8) as wire:
            assert wire.ask(m.SaslHandshakeRequest(mechanism="OAUTHBEARER")).error_code == 0
            told: list[object] = []
            try:
                for step in (message, b"\x01"):
                    answer = wire.ask(m.SaslAuthenticateRequest(auth_bytes=step))
                    told.append((answer.error_code, bytes(answer.auth_bytes), answer.session_lifetime_ms > 0))
                    if answer.error_code or answer.session_lifetime_ms:
                        break
            except ConnectionClosed:
                told.append("closed")
            answers[what] = told
    return answers


def test_tokens_are_answered_as_apache_kafka_answers_them(servers: dict[str, ServerProcess]) -> None:
    ours, theirs = (answers_to_tokens(servers[name]) for name in ("kmini", "kafka"))
    hung_up = {what for what, answers in theirs.items() if answers == ["closed"]}
    assert hung_up == {"another scheme", "without an algorithm"}, "Kafka meets an exception that it does not expect"
    assert {str(ours[what]) for what in hung_up} <= {str([(58, b"", False)]), str(ours["signed"])}
    differing = {what: (ours[what], theirs[what]) for what in ours.keys() - hung_up if ours[what] != theirs[what]}
    assert not differing, "\n".join(f"{what}: {pair}" for what, pair in differing.items())
    assert ours["a token"] == [(0, b"", True)]
