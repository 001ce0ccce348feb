"""`kmini serve`: data directories that it keeps, and those that it refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest


def test_a_data_directory_is_kept_with_what_is_in_it(start, stop, run, tmp_path) -> None:
    for expected in ("", "one\n"):
        process = start("serve", "--port", 0, "--data-dir", tmp_path / "data", "--topic", "orders:1")
        address = process.stdout.readline().strip()
        assert run("consume", "orders", "-b", address).stdout == expected
        run("produce", "orders", "-b", address, stdin="one\n")
        assert stop(process)[0] == 0


def test_a_second_broker_on_the_same_data_is_refused(start, run, tmp_path) -> None:
    process = start("serve", "--port", 0, "--data-dir", tmp_path)
    process.stdout.readline()
    result = run("serve", "--port", 0, "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "another broker" in result.stderr
    assert "raceback" not in result.stderr


def test_a_data_directory_that_is_a_file_is_told(run, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    result = run("serve", "--port", 0, "--data-dir", tmp_path / "file")
    assert result.exit_code == 2
    assert f"cannot use {tmp_path / 'file'}" in result.stderr.splitlines()[-1]


def test_a_log_directory_of_apache_kafka_is_refused_with_the_remedy(run, tmp_path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n")
    result = run("serve", "--port", 0, "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert f"kmini: {tmp_path} is a log directory of Apache Kafka's node 1" in result.stderr
    assert f"copy {tmp_path} to broker-1 in a new directory" in result.stderr
    assert "raceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_directory_of_other_files_is_refused_and_left_as_it_was(run, tmp_path, brokers: int) -> None:
    (tmp_path / "thesis.tex").write_text("")
    result = run("serve", "--port", 0, "--data-dir", tmp_path, "--brokers", brokers)
    assert result.exit_code == 1
    assert f"{tmp_path} is neither empty nor a data directory of kmini: it holds thesis.tex" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_log_directory_that_is_a_file_is_told(run, tmp_path) -> None:
    (tmp_path / "broker-1").write_text("")
    result = run("serve", "--port", 0, "--data-dir", tmp_path)
    assert result.exit_code == 2
    assert f"cannot use {tmp_path / 'broker-1'}: it is a file, and a directory was expected" in result.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the rights of a directory are told otherwise on Windows")
@pytest.mark.parametrize("is_new", [True, False])
def test_a_directory_that_cannot_be_written_is_not_said_to_be_in_use(start, stop, tmp_path, is_new: bool) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    if not is_new:
        process = start("serve", "--port", 0, "--data-dir", directory)
        process.stdout.readline()
        stop(process)
    directory.chmod(0o555)
    if not is_new:
        (directory / "kmini.db").chmod(0o444)
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and setpriv is missing")
    without_rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*without_rights, sys.executable, "-m", "kmini", "serve", "--port", "0", "--data-dir", str(directory)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    directory.chmod(0o755)
    assert finished.returncode == 2
    sentence = finished.stderr.splitlines()[-1]
    refused = directory / (".lock" if is_new else "kmini.db")
    assert f"cannot use {refused}: Permission denied" in sentence
    assert "another broker" not in sentence


def test_the_data_of_another_broker_are_left_alone(start, stop, run, tmp_path) -> None:
    process = start("serve", "--port", 0, "--data-dir", tmp_path)
    process.stdout.readline()
    stop(process)
    properties = tmp_path / "broker-1" / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    result = run("serve", "--port", 0, "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "is the log directory of node 2, not of node 1" in result.stderr
    assert "set node.id to 2" in result.stderr


def test_the_data_of_another_node_id_are_not_served_as_if_there_were_none(start, stop, run, tmp_path) -> None:
    process = start("serve", "--port", 0, "--data-dir", tmp_path)
    process.stdout.readline()
    stop(process)
    result = run("serve", "--port", 0, "--data-dir", tmp_path, "-c", "node.id=2")
    assert result.exit_code == 1
    assert "holds broker-1, and no broker-2. To serve its records, set node.id to 1" in result.stderr
