"""`kmini storage`: a data directory with its cluster id and users before the broker starts."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kmini.broker.controller.controller import Controller
from kmini.protocol import scram
from kmini.protocol.uuids import format_uuid, parse_uuid

ALICE = "SCRAM-SHA-512=[name=alice,password=secret]"


def opened(directory: Path) -> Controller:
    controller = Controller.open(str(directory))
    controller.close()
    return controller


def test_random_ids_are_uuids_as_kafka_writes_them(run) -> None:
    said = [run("storage", "random-uuid").stdout.strip() for _ in range(2)]
    assert said == [format_uuid(parse_uuid(text)) for text in said]
    assert len(set(said)) == 2


def test_a_formatted_directory_has_its_cluster_id_and_its_users(run, tmp_path: Path) -> None:
    bob = 'SCRAM-SHA-256=[ name = "bob" , iterations=5000, password="pass=word" ]'
    result = run("storage", "format", "--data-dir", tmp_path, "-t", "abc", "--add-scram", ALICE, "-S", bob)
    assert result.exit_code == 0, result.stderr
    controller = opened(tmp_path)
    assert controller.cluster_id == "abc"
    for user, mechanism, password in (("alice", scram.SHA_512, "secret"), ("bob", scram.SHA_256, "pass=word")):
        kept = controller.scram_credentials.pop((user, mechanism.wire_code))
        salted = scram.salted_password(mechanism, password, kept.salt, kept.iterations)
        assert scram.credential_of(mechanism, salted, kept.salt, kept.iterations) == kept
        assert kept.iterations == (5000 if user == "bob" else 4096)
    assert controller.scram_credentials == {}


def test_a_user_can_be_given_by_its_salted_password(run, tmp_path: Path) -> None:
    salt = b"some salt"
    salted = scram.salted_password(scram.SHA_512, "secret", salt, 4096)
    salt_text, salted_text = (base64.b64encode(part).decode() for part in (salt, salted))
    user = f"SCRAM-SHA-512=[name=alice,salt={salt_text},saltedpassword={salted_text}]"
    assert run("storage", "format", "--data-dir", tmp_path, "--add-scram", user).exit_code == 0
    assert opened(tmp_path).scram_credentials == {
        ("alice", scram.SHA_512.wire_code): scram.credential_of(scram.SHA_512, salted, salt, 4096)
    }


def test_a_formatted_directory_is_refused_or_left_as_it_is(run, tmp_path: Path) -> None:
    arguments = ("storage", "format", "--data-dir", tmp_path)
    assert run(*arguments, "-t", "first").exit_code == 0
    refused = run(*arguments, "-t", "second")
    assert refused.exit_code == 1
    assert "is already formatted; --ignore-formatted leaves it as it is" in refused.stderr
    assert run(*arguments, "-t", "second", "--add-scram", ALICE, "--ignore-formatted").exit_code == 0
    assert (opened(tmp_path).cluster_id, opened(tmp_path).scram_credentials) == ("first", {})


@pytest.mark.parametrize(
    ("user", "code", "said"),
    [
        ("nonsense", 2, "SCRAM-SHA-512=[name=…,password=…] was expected"),
        ("SCRAM-SHA-1=[name=a,password=secret]", 2, "SCRAM-SHA-512=[name=…,password=…] was expected"),
        ("SCRAM-SHA-512=name=a,password=secret", 2, "SCRAM-SHA-512=[name=…,password=…] was expected"),
        ("SCRAM-SHA-512=[name=a]", 2, "a password or a saltedpassword, were expected"),
        ("SCRAM-SHA-512=[password=secret]", 2, "a name, and a password"),
        ("SCRAM-SHA-512=[name=a,password=secret,saltedpassword=c2VjcmV0]", 2, "a name, and a password"),
        ("SCRAM-SHA-512=[name=a,saltedpassword=c2VjcmV0]", 2, "a saltedpassword needs its salt"),
        ("SCRAM-SHA-512=[name=a,password=secret,name=b]", 2, "once at most, as key=value"),
        ("SCRAM-SHA-512=[name=a,pasword=secret]", 2, "each of name, password, salt, iterations, saltedpassword"),
        ("SCRAM-SHA-512=[name=a,password=secret,salt=secret]", 2, "salt is not base64"),
        ("SCRAM-SHA-512=[name=a,password=secret,iterations=few]", 2, "iterations=few: a number was expected"),
        ("SCRAM-SHA-512=[name=a,password=secret,iterations=5]", 1, "the user a: Too few iterations"),
        ("SCRAM-SHA-512=[name=a,password=secret,iterations=999999999]", 1, "the user a: Too many iterations"),
    ],
)
def test_a_user_that_cannot_be_created_is_told_and_nothing_is_formatted(run, tmp_path, user, code, said) -> None:
    result = run("storage", "format", "--data-dir", tmp_path, "--add-scram", user)
    assert result.exit_code == code
    assert said in result.stderr
    assert "secret" not in result.stderr
    assert run("storage", "format", "--data-dir", tmp_path, "--add-scram", ALICE).exit_code == 0
    assert {name for name, _ in opened(tmp_path).scram_credentials} == {"alice"}


def test_the_directory_comes_from_the_settings(run, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'data'}\n")
    assert run("storage", "format", "-t", "abc", "-c", properties).exit_code == 0
    assert opened(tmp_path / "data").cluster_id == "abc"
    result = run("storage", "format")
    assert result.exit_code == 2
    assert "there is no data directory" in result.stderr
    result = run("storage", "format", "-c", tmp_path / "none")
    assert result.exit_code == 2
    assert "cannot read" in result.stderr


def test_in_a_container_the_environment_names_directory_and_cluster(run, tmp_path: Path) -> None:
    said = {"KAFKA_LOG_DIRS": str(tmp_path / "data"), "CLUSTER_ID": "from-env"}
    result = run("storage", "format", "--env", "-t", "random", "-c", "/etc/kafka/kafka.properties", **said)
    assert result.exit_code == 0, result.stderr
    assert opened(tmp_path / "data").cluster_id == "from-env"


def test_a_directory_that_cannot_be_made_is_told(run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("storage", "format", "--data-dir", tmp_path / "file" / "data")
    assert result.exit_code == 1
    assert f"cannot use {tmp_path / 'file' / 'data'}: Not a directory" in result.stderr
