"""`kmini storage`: prepare a data directory before a broker first starts on it, as Kafka's kafka-storage does."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from kmini.cli.environment import NO_ENVIRONMENT, Environment, read_environment

if TYPE_CHECKING:
    from kmini.broker.controller.controller import Controller
    from kmini.broker.security.scram_credentials import Upsertion

SALT_BYTES = 24
"""Bytes of a salt that `--add-scram` draws."""


class ScramUser(NamedTuple):
    """A user of `--add-scram`."""

    mechanism: str
    name: str
    password: str
    """The password; empty if `salted_password` is given."""
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"<{self.mechanism} of {self.name}>"


@click.group()
def storage() -> None:
    """Prepare a data directory, as Kafka's kafka-storage does.

    A broker makes its data directory by itself: this is for SCRAM users that must exist when it starts, and for
    programs that call kafka-storage.

    \b
    kmini storage random-uuid
    kmini storage format --data-dir data --add-scram 'SCRAM-SHA-512=[name=alice,password=secret]'
    """


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a new cluster id.

    \b
    kmini storage random-uuid
    """
    from kmini.protocol.uuids import format_uuid
    from kmini.protocol.uuids import random_uuid as new_uuid

    click.echo(format_uuid(new_uuid()))


@storage.command("format")
@click.option("-t", "--cluster-id", metavar="ID", help="The id of the cluster.  [default: a random one]")
@click.option("-c", "--config", "properties_file", metavar="FILE", help="A server.properties, for its log.dirs.")
@click.option("--data-dir", metavar="DIR", help="The data directory, instead of log.dirs.")
@click.option(
    "--env",
    "from_environment",
    is_flag=True,
    help="Take KAFKA_* variables, as kmini serve --env does; FILE need not exist, CLUSTER_ID wins over --cluster-id.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave a directory that is formatted as it is.")
@click.option("-s", "--standalone", is_flag=True, help="Accepted because every kmini is a quorum of its own.")
@click.option(
    "-S",
    "--add-scram",
    "users",
    metavar="USER",
    multiple=True,
    help="Create a user, such as SCRAM-SHA-512=[name=alice,password=secret].",
)
def format_(
    cluster_id: str | None,
    properties_file: str | None,
    data_dir: str | None,
    from_environment: bool,
    ignore_formatted: bool,
    standalone: bool,
    users: tuple[str, ...],
) -> None:
    """Give a data directory its cluster id and its first users.

    A user takes name, and password or saltedpassword, and may take salt and iterations; salt and saltedpassword are in
    base64. Nothing is changed in a directory that is formatted already.

    \b
    kmini storage format -t 4L6g3nShT-eMCtK--X86sw -c server.properties
    kmini storage format --data-dir data --add-scram 'SCRAM-SHA-512=[name=alice,password=secret]'
    """
    from kmini.broker.controller.controller import Controller, ControllerError
    from kmini.storage.filenames import DATABASE

    new_users = [_parse_user(text) for text in users]
    environment = read_environment(os.environ) if from_environment else NO_ENVIRONMENT
    directory = data_dir or _data_directory(properties_file, environment, from_environment=from_environment)
    database = os.path.join(directory, DATABASE)
    if os.path.exists(database):
        if not ignore_formatted:
            raise click.ClickException(f"{directory} is already formatted; --ignore-formatted leaves it as it is")
        click.echo(f"{directory} is already formatted and stays as it is")
        return
    try:
        os.makedirs(directory, exist_ok=True)
        controller = Controller.open(directory, cluster_id=environment.cluster_id or cluster_id or "")
    except ControllerError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot use {error.filename or directory}: {error.strerror or error}") from error
    try:
        _add(controller, new_users)
    except BaseException:
        controller.close()
        _remove(database)
        raise
    controller.close()
    click.echo(f"formatted {directory} for the cluster {controller.cluster_id}")
    for user in new_users:
        click.echo(f"created the user {user.name} for {user.mechanism}")


def _data_directory(properties_file: str | None, environment: Environment, *, from_environment: bool) -> str:
    """The directory that the settings name. Raises click.UsageError without one."""
    from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
    from kmini.cli.serve import settings_of

    if from_environment and properties_file is not None and not os.path.exists(properties_file):
        properties_file = None  # wrappers name a file that another image makes from the environment
    try:
        config = BrokerConfig.parse(settings_of(properties_file, environment, is_container=from_environment))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if config.data_dir is None:
        raise click.UsageError("there is no data directory: --data-dir DIR, or a FILE with log.dirs, was expected")
    return config.data_dir


def _add(controller: Controller, users: list[ScramUser]) -> None:
    """Create the users. Raises click.ClickException for a user that the rules of SCRAM do not allow."""
    from kmini.broker.security.scram_credentials import alter

    for name, error in alter(controller, [], [_upsertion(user) for user in users]).items():
        if error is not None:
            raise click.ClickException(f"--add-scram: the user {name}: {error.message}")


def _upsertion(user: ScramUser) -> Upsertion:
    from kmini.broker.security.scram_credentials import Upsertion
    from kmini.protocol import scram

    mechanism = scram.MECHANISMS[user.mechanism]
    salted = user.salted_password
    if user.password:
        iterations = min(max(1, user.iterations), mechanism.max_iterations)  # values out of bounds are refused later
        salted = scram.salted_password(mechanism, user.password, user.salt, iterations)
    return Upsertion(
        name=user.name,
        mechanism=mechanism.wire_code,
        iterations=user.iterations,
        salt=user.salt,
        salted_password=salted,
    )


def _remove(database: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.remove(database + suffix)


# --- users


def _parse_user(text: str) -> ScramUser:
    """Read MECHANISM=[key=value,…]. Raises click.UsageError, which quotes no value: it may be a password."""
    from kmini.protocol.scram import MECHANISMS

    mechanism, _, rest = (part.strip() for part in text.partition("="))
    if mechanism not in MECHANISMS or not (rest.startswith("[") and rest.endswith("]")):
        expected = " or ".join(f"{name}=[name=…,password=…]" for name in MECHANISMS)
        raise click.UsageError(f"--add-scram {mechanism}=…: {expected} was expected")
    fields = _fields(rest[1:-1], f"--add-scram {mechanism}")
    password, salted = fields.get("password", ""), _bytes(fields, "saltedpassword")
    if not fields.get("name") or bool(password) == bool(salted):
        raise click.UsageError(f"--add-scram {mechanism}: a name, and a password or a saltedpassword, were expected")
    if salted and "salt" not in fields:
        raise click.UsageError(f"--add-scram {mechanism}: a saltedpassword needs its salt")
    iterations = fields.get("iterations", str(MECHANISMS[mechanism].min_iterations))
    if not (iterations.isascii() and iterations.isdigit() and len(iterations) <= 9):
        raise click.UsageError(f"--add-scram {mechanism}: iterations={iterations}: a number was expected")
    salt = _bytes(fields, "salt") if "salt" in fields else secrets.token_bytes(SALT_BYTES)
    return ScramUser(mechanism, fields["name"], password, int(iterations), salt, salted)


def _fields(text: str, option: str) -> Mapping[str, str]:
    """Return the values by key. A value may be in double quotes, and holds no comma, as in Kafka."""
    known = ("name", "password", "salt", "iterations", "saltedpassword")
    fields: dict[str, str] = {}
    for item in text.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or key not in known or key in fields:
            raise click.UsageError(f"{option}: each of {', '.join(known)} was expected once at most, as key=value")
        fields[key] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return fields


def _bytes(fields: Mapping[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(fields.get(key, ""), validate=True)
    except (binascii.Error, ValueError):
        raise click.UsageError(f"--add-scram: {key} is not base64") from None
