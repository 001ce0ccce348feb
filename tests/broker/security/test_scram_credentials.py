"""SCRAM credentials: created, used, described and deleted over the wire."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.security.scram_credentials import MAX_SALT_BYTES
from kmini.client import Client, Sasl
from kmini.protocol import messages as m
from kmini.protocol import scram
from kmini.protocol.errors import (
    DuplicateResource,
    ResourceNotFound,
    SaslAuthenticationFailed,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from support.broker.sasl_clients import Served

pytestmark = pytest.mark.sockets

Serve = Callable[..., Awaitable[Served]]


def upsertion(name: str, password: str, mechanism: scram.Mechanism, iterations: int = 4096) -> Any:
    salt = os.urandom(16)
    return m.AlterUserScramCredentialsRequest.Upsertion(
        name=name,
        mechanism=mechanism.wire_code,
        iterations=iterations,
        salt=salt,
        salted_password=scram.salted_password(mechanism, password, salt, iterations),
    )


async def alter(client: Client, *, upsertions: Any = (), deletions: Any = ()) -> dict[str, int]:
    request = m.AlterUserScramCredentialsRequest(
        deletions=[m.AlterUserScramCredentialsRequest.Deletion(name=name, mechanism=code) for name, code in deletions],
        upsertions=list(upsertions),
    )
    answer = await client.send(None, request)
    return {result.user: result.error_code for result in answer.results}


def log_in(address: str, mechanism: str, user: str, password: str) -> Client:
    return Client(address, sasl=Sasl(mechanism, user, password), timeout_ms=10_000)


@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=lambda mechanism: mechanism.name)
async def test_scram_from_creating_a_user_to_deleting_it(serve: Serve, mechanism: scram.Mechanism) -> None:
    served = await serve()
    address = served.broker.address
    async with log_in(address, "PLAIN", "admin", "admin-secret") as admin:
        assert await alter(admin, upsertions=[upsertion("carol", "first", mechanism)]) == {"carol": 0}
        async with log_in(address, mechanism.name, "carol", "first") as carol:
            assert (await carol.metadata()).brokers
        assert await alter(admin, upsertions=[upsertion("carol", "second", mechanism)]) == {"carol": 0}
        with pytest.raises(SaslAuthenticationFailed):
            async with log_in(address, mechanism.name, "carol", "first") as carol:
                await carol.metadata()
        assert await alter(admin, deletions=[("carol", mechanism.wire_code)]) == {"carol": 0}
        with pytest.raises(SaslAuthenticationFailed):
            async with log_in(address, mechanism.name, "carol", "second") as carol:
                await carol.metadata()


async def test_credentials_survive_a_restart_and_are_for_their_owner_only(serve: Serve, tmp_path: Path) -> None:
    served = await serve()
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        await alter(admin, upsertions=[upsertion("carol", "keep-me-secret", scram.SHA_256)])
        await alter(admin, upsertions=[upsertion("dave", "keep-me-secret", scram.SHA_256)])
    files = list(tmp_path.glob("kmini.db*"))  # noqa: ASYNC240
    assert files
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert b"keep-me-secret" not in path.read_bytes()
    stored = served.broker.controller.scram_credentials
    assert stored["carol", 1].stored_key != stored["dave", 1].stored_key, "equal passwords have different salts"
    await served.broker.stop()
    served = await serve()
    async with log_in(served.broker.address, "SCRAM-SHA-256", "carol", "keep-me-secret") as carol:
        assert (await carol.metadata()).brokers


async def test_a_database_that_others_may_read_becomes_its_owners(serve: Serve, tmp_path: Path) -> None:
    served = await serve()
    await served.broker.stop()
    (tmp_path / "kmini.db").chmod(0o644)
    await serve()
    assert stat.S_IMODE((tmp_path / "kmini.db").stat().st_mode) == 0o600


async def test_a_description_holds_nothing_secret(serve: Serve) -> None:
    served = await serve()
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        await alter(admin, upsertions=[upsertion("carol", "x", scram.SHA_256), upsertion("carol", "x", scram.SHA_512)])
        Asked = m.DescribeUserScramCredentialsRequest.User
        answer = await admin.send(None, m.DescribeUserScramCredentialsRequest(users=None))
        assert [(result.user, result.error_code) for result in answer.results] == [("carol", 0)]
        assert [(info.mechanism, info.iterations) for info in answer.results[0].credential_infos] == [
            (1, 4096),
            (2, 4096),
        ]
        asked = [Asked(name="carol"), Asked(name="nobody"), Asked(name="carol"), Asked(name="")]
        answer = await admin.send(None, m.DescribeUserScramCredentialsRequest(users=asked))
        assert {result.user: result.error_code for result in answer.results} == {
            "carol": DuplicateResource.code,
            "nobody": ResourceNotFound.code,
            "": ResourceNotFound.code,
        }
        configs = await admin.send(
            1,
            m.DescribeConfigsRequest(
                resources=[
                    m.DescribeConfigsRequest.Resource(
                        resource_type=4, resource_name="1", configuration_keys=["sasl.jaas.config"]
                    )
                ]
            ),
        )
        (entry,) = configs.results[0].configs
        assert (entry.value, entry.is_sensitive) == (None, True)
        assert "wonderland" not in repr(served.broker.config)


async def test_invalid_credentials_are_refused_user_by_user(serve: Serve) -> None:
    served = await serve()
    good = upsertion("good", "x", scram.SHA_256)
    few, many = (upsertion(f"i{count}", "x", scram.SHA_256, count) for count in (4095, 16_385))
    empty = upsertion("empty", "x", scram.SHA_256)
    empty.salted_password = b""
    huge = upsertion("huge", "x", scram.SHA_256)
    huge.salt = bytes(MAX_SALT_BYTES + 1)
    unknown = upsertion("unknown", "x", scram.SHA_256)
    unknown.mechanism = 3
    twice = [upsertion("twice", "x", scram.SHA_256), upsertion("twice", "y", scram.SHA_256)]
    nameless = upsertion("", "x", scram.SHA_256)
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        outcomes = await alter(
            admin,
            upsertions=[good, few, many, empty, huge, unknown, *twice, nameless],
            deletions=[("nobody", 1), ("unknown-mechanism", 9)],
        )
    assert outcomes == {
        "good": 0,
        "i4095": UnacceptableCredential.code,
        "i16385": UnacceptableCredential.code,
        "empty": UnacceptableCredential.code,
        "huge": UnacceptableCredential.code,
        "unknown": UnsupportedSaslMechanism.code,
        "twice": DuplicateResource.code,
        "": UnacceptableCredential.code,
        "nobody": ResourceNotFound.code,
        "unknown-mechanism": UnsupportedSaslMechanism.code,
    }
    assert {name for name, _ in served.broker.controller.scram_credentials} == {"good"}


@pytest.mark.parametrize("mechanism", scram.MECHANISMS.values(), ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("salt_bytes", [0, 1, 5_000])
async def test_a_salt_of_any_length_is_stored_and_its_user_can_authenticate_after_a_restart(
    serve: Serve, mechanism: scram.Mechanism, salt_bytes: int
) -> None:
    salt = os.urandom(salt_bytes)
    carol = upsertion("carol", "x", mechanism)
    carol.salt, carol.salted_password = salt, scram.salted_password(mechanism, "x", salt, carol.iterations)
    served = await serve()
    async with log_in(served.broker.address, "PLAIN", "admin", "admin-secret") as admin:
        assert await alter(admin, upsertions=[carol]) == {"carol": 0}
    for _ in range(2):
        async with log_in(served.broker.address, mechanism.name, "carol", "x") as client:
            assert (await client.metadata()).brokers
        with pytest.raises(SaslAuthenticationFailed):
            async with log_in(served.broker.address, mechanism.name, "carol", "y") as client:
                await client.metadata()
        await served.broker.stop()
        served = await serve()
