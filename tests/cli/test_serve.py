"""`kmini serve`: what it says, when it is ready, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kmini.protocol.messages.api_versions import ApiVersionsRequest
from kmini.testing import Wire

ADDRESS = re.compile(r"127\.0\.0\.1:\d+\n")


def test_the_first_line_is_the_address_and_then_it_answers(start, run) -> None:
    process = start("serve", "--port", 0)
    line = process.stdout.readline()
    assert ADDRESS.fullmatch(line)
    assert run("topic", "list", "-b", line.strip()).exit_code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(start, stop, number: int) -> None:
    process = start("serve", "--port", 0)
    process.stdout.readline()
    code, stderr = stop(process, number)
    assert code == 0
    assert "stopped" in stderr


def test_without_a_data_directory_it_says_where_the_data_are_and_removes_them(start, stop, tmp_path) -> None:
    process = start("serve", "--port", 0, env={"TMPDIR": str(tmp_path), "PATH": ""})
    process.stdout.readline()
    (directory,) = tmp_path.iterdir()
    code, stderr = stop(process)
    assert code == 0
    assert f"data go to {directory}, which is removed at the end; --data-dir DIR keeps them" in stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("level", "is_logged"), [("debug", True), ("info", False)])
def test_each_request_is_logged_at_debug_and_none_at_info(start, stop, run, level: str, is_logged: bool) -> None:
    process = start("serve", "--port", 0, "--log-level", level)
    run("produce", "orders", "-b", process.stdout.readline().strip(), stdin="one\n")
    stderr = stop(process)[1]
    assert bool(
        re.search(r"DEBUG kmini\.request: Produce v\d+ client=.* topic_data=orders\[0\] error=NONE ms=", stderr)
    ) == (is_logged)
    assert ("kmini.request" in stderr) == is_logged


@pytest.mark.parametrize("how", ["an option", "a variable"])
def test_each_log_line_is_an_object_of_json_on_request(start, stop, tmp_path, how: str) -> None:
    options = ("--log-format", "json") if how == "an option" else ()
    environ = {**os.environ, **({} if options else {"KMINI_LOG_FORMAT": "json"}), "TMPDIR": str(tmp_path)}
    process = start("serve", "--port", 0, "--topic", "orders:1", *options, env=environ)
    host, port = process.stdout.readline().strip().split(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(b"\xff" * 64)
        assert peer.recv(1) == b""
    lines = [json.loads(line) for line in stop(process)[1].splitlines()]
    assert all({"time", "level", "logger", "message"} == line.keys() for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    assert {("INFO", "kmini.serve"), ("INFO", "kmini.broker"), ("WARNING", "kmini.connection")} == {
        (line["level"], line["logger"]) for line in lines
    }


def test_topics_are_created_before_the_address_is_said(start, run) -> None:
    process = start("serve", "--port", 0, "--topic", "orders:3", "--topic", "profiles:1:compact")
    address = process.stdout.readline().strip()
    assert run("topic", "list", "-b", address).stdout == "orders\nprofiles\n"
    assert len(run("topic", "describe", "orders", "-b", address).stdout.splitlines()) == 4
    run("produce", "profiles", "-K", ":", "-b", address, stdin="a:1\n")
    assert "POLICY_VIOLATION" in run("delete-records", "profiles:0:1", "-b", address).stdout


def test_a_topic_that_is_there_stays_as_it_is(start, stop, run, tmp_path) -> None:
    arguments = ("serve", "--port", 0, "--data-dir", tmp_path / "data", "--topic")
    process = start(*arguments, "orders:3")
    process.stdout.readline()
    stop(process)
    process = start(*arguments, "orders:5")
    address = process.stdout.readline().strip()
    assert len(run("topic", "describe", "-b", address).stdout.splitlines()) == 4
    assert "topic orders exists with 3 partitions and stays so" in stop(process)[1]


def test_the_port_is_written_to_a_file_on_request(start, stop, tmp_path) -> None:
    port_file = tmp_path / "port"
    process = start("serve", "--port", 0, "--port-file", port_file)
    address = process.stdout.readline()
    while not port_file.exists():
        assert process.poll() is None
    assert address == f"127.0.0.1:{port_file.read_text()}"
    stop(process)
    assert not list(tmp_path.iterdir())


def test_several_brokers_say_where_each_is_and_know_each_other(start, stop, run, tmp_path) -> None:
    port_file = tmp_path / "ports"
    options = ("--topic", "orders:3", "-c", "default.replication.factor=3", "--port-file", port_file)
    process = start("serve", "--brokers", 3, "--port", 0, "--data-dir", tmp_path / "data", *options)
    addresses = [process.stdout.readline().strip() for _ in range(3)]
    assert len(set(addresses)) == 3
    for address in addresses:  # each answers, and knows the topic and the others
        lines = run("topic", "describe", "orders", "-b", address).stdout.splitlines()
        assert len(lines) == 4
        assert [sorted(re.findall(r"\b[123],[123],[123]\b", line)[0].split(",")) for line in lines[1:]] == [
            ["1", "2", "3"]
        ] * 3
    run("produce", "orders", "-b", addresses[2], stdin="one\n")
    assert run("consume", "orders", "-b", addresses[1]).stdout == "one\n"
    while not port_file.exists():
        assert process.poll() is None
    assert [f"127.0.0.1:{port}" for port in port_file.read_text().split()] == addresses
    code, stderr = stop(process)
    assert code == 0
    assert [f"node {number} stopped" in stderr for number in (1, 2, 3)] == [True] * 3
    assert not port_file.exists()
    assert {"broker-1", "broker-2", "broker-3", "kmini.db"} <= {path.name for path in (tmp_path / "data").iterdir()}


def test_several_brokers_have_the_ports_from_the_one_that_is_named(start) -> None:
    port = three_free_ports()
    process = start("serve", "--brokers", 3, "--port", port)
    assert [process.stdout.readline().strip() for _ in range(3)] == [f"127.0.0.1:{port + more}" for more in range(3)]


def three_free_ports() -> int:
    """The first of three free ports, one after the other."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as first, suppress(OSError, OverflowError):
            port: int = first.getsockname()[1]
            with socket.create_server(("127.0.0.1", port + 1)), socket.create_server(("127.0.0.1", port + 2)):
                return port
    raise AssertionError("no three ports in a row are free")


def test_none_of_several_brokers_runs_if_one_cannot(run, tmp_path) -> None:
    port = three_free_ports()
    with socket.create_server(("127.0.0.1", port + 2)):
        result = run("serve", "--brokers", 3, "--port", port)
    assert result.exit_code == 2
    assert f"127.0.0.1:{port + 2}: Address already in use" in result.stderr.splitlines()[-1]
    assert not result.stdout
    for number in (port, port + 1):
        socket.create_server(("127.0.0.1", number)).close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--brokers", 0), "--brokers"),
        (("--brokers", 3, "--port", 65534), "there is no port 65536"),
        (
            (
                *("--brokers", 2, "-c", "listeners=PLAINTEXT://127.0.0.1:9092,INSIDE://127.0.0.1:9093"),
                *("-c", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT"),
            ),
            "broker 2 would listen at 127.0.0.1:9093, as broker 1 does",
        ),
    ],
)
def test_several_brokers_that_cannot_be_are_told(run, arguments, said: str) -> None:
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr.splitlines()[-1]


def test_a_taken_port_is_one_sentence_with_the_remedy(run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", port)
    assert result.exit_code == 2
    sentence = result.stderr.splitlines()[-1]
    assert f"127.0.0.1:{port}: Address already in use; stop the program that listens there, or choose" in sentence
    assert not result.stdout


def test_an_address_of_another_machine_is_told(run) -> None:
    result = run("serve", "--port", 0, "--host", "203.0.113.1")
    assert result.exit_code == 2
    assert "--host" in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("host", ["kafka", "k" * 64], ids=["unknown", "too long"])
def test_a_listener_whose_name_has_no_address_is_told(run, tmp_path, monkeypatch, host: str) -> None:
    resolve = socket.getaddrinfo

    def resolve_all_but_kafka(name, *arguments, **options):
        if name == "kafka":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(name, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_all_but_kafka)
    result = run("serve", "--data-dir", tmp_path, "-c", f"listeners=PLAINTEXT://{host}:9092")
    assert result.exit_code == 2
    sentence = result.stderr.splitlines()[-1]
    assert f"cannot listen on PLAINTEXT://{host}:9092: the name has no address; choose an address" in sentence


def test_a_topic_that_exists_with_another_cleanup_policy_stays_so_and_it_is_said(start, stop, tmp_path) -> None:
    said = []
    for topics in ("a:1:1,b:1:1:compact", "a:1:1:compact,b:1:1:compact", "a:2:1:delete,b:1:1"):
        environ = {"KAFKA_CREATE_TOPICS": topics, "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0", "PATH": ""}
        process = start("serve", "--env", "--data-dir", tmp_path, env=environ)
        process.stdout.readline()
        said.append([line for line in stop(process)[1].splitlines() if "stays so" in line])
    assert said == [
        [],
        ["kmini: topic a exists with cleanup.policy=delete and stays so"],
        ["kmini: topic a exists with 1 partition and stays so"],
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "log.retention.ms"], "KEY=VALUE was expected"),
        (["-c", "log.retention.ms=soon"], "log.retention.ms=soon"),
        (["-c", "log.retentoin.ms=5"], "did you mean"),
        (["--topic", "orders"], "NAME:PARTITIONS or NAME:PARTITIONS:compact was expected"),
        (["--topic", "orders:0"], "was expected"),
        (["--topic", "orders:1:delete"], "was expected"),
        (["--topic", "a b:1"], "may hold ASCII letters"),
        (["--port", "65536"], "65536 is not in the range"),
        (["--as-version", "2.7"], "kmini.as.version=2.7: must be one of 2.8, 3.9, 4.0, 4.3"),
        (["nowhere.properties"], "cannot read nowhere.properties: No such file or directory"),
    ],
)
def test_bad_arguments_are_one_sentence(run, arguments: list[str], said: str) -> None:
    result = run("serve", *arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert said.lower() in result.stderr.lower()


def test_settings_come_from_the_file_then_the_options(start, run, tmp_path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"num.partitions=2\nlog.dirs={tmp_path / 'elsewhere'}\nlisteners=PLAINTEXT://127.0.0.1:1\n")
    process = start("serve", properties, "-c", "num.partitions=4", "--port", 0, "--data-dir", tmp_path / "data")
    address = process.stdout.readline().strip()
    run("topic", "create", "orders", "-b", address)
    assert len(run("topic", "describe", "-b", address).stdout.splitlines()) == 1 + 4
    assert (tmp_path / "data").is_dir()
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_is_no_properties_file_is_told(run, tmp_path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("a=1\nb=\\u12\n")
    assert "is no properties file: line 2" in run("serve", path).stderr


def test_every_address_of_the_machine_is_said_as_one_that_can_be_connected_to(start, run) -> None:
    process = start("serve", "--port", 0, "--host", "0.0.0.0")
    line = process.stdout.readline()
    assert ADDRESS.fullmatch(line)
    assert run("topic", "list", "-b", line.strip()).exit_code == 0


def test_each_listener_is_a_line(start) -> None:
    process = start("serve", "-c", "listeners=PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
                    "-c", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT")  # fmt: skip
    assert all(ADDRESS.fullmatch(process.stdout.readline()) for _ in range(2))


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="no /proc to read limits from")
def test_the_limit_of_open_files_is_raised_to_what_is_allowed() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = [sys.executable, "-m", "kmini", "serve", "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)),
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        process.terminate()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
    assert line.split()[3] == line.split()[4]


HANGING = """
import asyncio, sys
from kmini.broker.broker import BrokerServer
from kmini.cli import main

async def hang(self):
    print("stopping", flush=True)
    await asyncio.sleep(3600)

BrokerServer.stop = hang
sys.argv[1:] = ["serve", "--port", "0"]
main()
"""


def test_a_second_signal_ends_it_at_once_and_still_leaves_nothing(tmp_path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HANGING],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        for said in (ADDRESS, re.compile("stopping\n")):
            assert said.fullmatch(process.stdout.readline().decode())
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 130
    assert not list(tmp_path.iterdir())


def test_a_topic_that_cannot_be_is_told(run) -> None:
    result = run("serve", "--port", 0, "--topic", "a.b:1", "--topic", "a_b:1")
    assert result.exit_code == 2
    assert "--topic a_b: a_b and the existing topic a.b would have the same metrics" in result.stderr


def test_it_passes_for_the_release_it_is_asked_to(start) -> None:
    process = start("serve", "--port", 0, "--as-version", "3.9")
    with Wire(process.stdout.readline().strip()) as wire:
        answer = wire.ask(ApiVersionsRequest(client_software_name="tests", client_software_version="1"), 4)
    assert {api.api_key: api.max_version for api in answer.api_keys}[1] == 17
