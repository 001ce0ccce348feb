"""A file of an init directory, and why it cannot be run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kmini.cli.init_directory import InitError, InitFile


def file_at(path: Path) -> InitFile:
    return InitFile(path.name, str(path))


def refusal_of(path: Path) -> str:
    with pytest.raises(InitError) as raised:
        file_at(path).check()
    return str(raised.value)


@pytest.mark.parametrize("name", ["10.topics", "20.orders.jsonl", "30 faults.json", "40.sh"])
def test_four_kinds_of_files_can_be_run(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    file_at(tmp_path / name).check()


@pytest.mark.parametrize("name", ["10.topic", "orders", "20.jsonl.gz", "30.SH", "40.sh~"])
def test_another_ending_is_named_with_those_that_are_expected(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    assert refusal_of(tmp_path / name).startswith(f"{name}: must end in .topics, .jsonl, .json, .sh; ")


def test_a_link_to_a_file_is_a_file_as_in_the_volumes_of_kubernetes(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "10.topics").write_text("a:1:1")
    link = tmp_path / "10.topics"
    link.symlink_to("..data/10.topics")
    file_at(link).check()
    assert file_at(link).read() == "a:1:1"


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "10.topics").mkdir()
    assert "10.topics: a directory, and a file was expected; Docker makes" in refusal_of(tmp_path / "10.topics")
    (tmp_path / "20.sh").symlink_to("nowhere")
    assert refusal_of(tmp_path / "20.sh") == "20.sh: a link, and what it points to does not exist"
    (tmp_path / "30.sh").symlink_to("/dev/zero")
    assert refusal_of(tmp_path / "30.sh") == "30.sh: a regular file was expected"
    os.mkfifo(tmp_path / "40.jsonl")
    assert refusal_of(tmp_path / "40.jsonl") == "40.jsonl: a regular file was expected"


def test_what_cannot_be_read_is_named_with_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("builtins.open", refuse)
    for read in (file_at(tmp_path / "10.topics").read, file_at(tmp_path / "10.topics").digest):
        with pytest.raises(InitError) as raised:
            read()
        assert str(raised.value) == f"10.topics: cannot be read: Permission denied (kmini runs as user {os.geteuid()})"


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "10.topics").write_bytes(b"\xef\xbb\xbforders:3:1")
    assert file_at(tmp_path / "10.topics").read() == "orders:3:1"


def test_what_is_no_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "10.topics").write_bytes(b"orders:3:1\nprofiles\xff:1:1\n")
    with pytest.raises(InitError, match=r"^10\.topics, line 2: UTF-8 was expected$"):
        file_at(tmp_path / "10.topics").read()


def test_errors_show_no_path_and_no_control_character(tmp_path: Path) -> None:
    file = file_at(tmp_path / "10\x1b[31m.topics")
    text = str(file.error(f"cannot use {tmp_path}/10\x1b[31m.topics"))
    assert str(tmp_path) not in text
    assert text == "10\\x1b[31m.topics: cannot use 10\\x1b[31m.topics"
