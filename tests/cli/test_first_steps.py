"""The first steps that `kmini serve` prints."""

from __future__ import annotations

import re
import subprocess
import threading

import pytest

ADDRESS = re.compile(r"127\.0\.0\.1:\d+\n")


def lines_until_consume(process) -> list[str]:
    """The first lines on stderr, up to the one that says how to consume."""
    lines = []
    watchdog = threading.Timer(30, process.kill)
    watchdog.start()
    try:
        for line in process.stderr:
            lines.append(line)
            if "to consume" in line:
                return lines
    finally:
        watchdog.cancel()
    raise AssertionError("".join(lines))


def test_the_first_lines_say_where_the_data_are_and_two_commands_that_work(start, tmp_path) -> None:
    process = start("serve", "--port", 0, "--data-dir", tmp_path / "data")
    address = process.stdout.readline().strip()
    lines = lines_until_consume(process)
    assert f"kmini: data are in {tmp_path / 'data'}\n" in lines
    for what, printed in (("produce", ""), ("consume", "hello\n")):
        (command,) = (line.partition(f"kmini: to {what}: ")[2] for line in lines if f"to {what}: " in line)
        assert command.strip().endswith(f"-b {address}")
        finished = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
        assert (finished.returncode, finished.stdout) == (0, printed), finished.stderr


def test_without_topics_of_their_own_accord_the_first_lines_say_how_to_create_one(start) -> None:
    process = start("serve", "--port", 0, "-c", "auto.create.topics.enable=false")
    address = process.stdout.readline().strip()
    (line,) = (line for line in lines_until_consume(process) if "to create a topic: " in line)
    assert line.endswith(f"-m kmini topic create try -b {address}\n")


def test_where_clients_authenticate_the_first_lines_name_the_file_for_it(start) -> None:
    process = start(
        *("serve", "-c", "listeners=SASL_PLAINTEXT://127.0.0.1:0", "-c", "sasl.enabled.mechanisms=SCRAM-SHA-256"),
        *("-c", "inter.broker.listener.name=SASL_PLAINTEXT"),
    )
    process.stdout.readline()
    assert lines_until_consume(process)[-1].endswith("--command-config client.properties\n")


@pytest.mark.parametrize("options", [["--log-level", "warning"], ["--log-format", "json"], ["--env"]])
def test_the_first_steps_are_left_out_where_nobody_reads_them(start, stop, options: list[str]) -> None:
    process = start("serve", "--port", 0, *options)
    assert ADDRESS.fullmatch(process.stdout.readline())
    assert "to produce" not in stop(process)[1]
