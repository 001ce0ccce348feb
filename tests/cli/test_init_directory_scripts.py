"""Scripts of an init directory: their time, their end, and their output."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kmini.cli.init_directory import InitError, InitFile, Script
from support.until import PATIENCE, until


def script(directory: Path, text: str, timeout_ms: int = 60_000, **environ: str) -> Script:
    path = directory / "10.sh"
    path.write_bytes(text.encode())
    return Script(InitFile(path.name, str(path)), {"PATH": os.environ["PATH"], **environ}, timeout_ms)


def refusal_of(call: object) -> str:
    with pytest.raises(InitError) as raised:
        call()  # type: ignore[operator]
    return str(raised.value)


def test_it_runs_in_its_directory_with_its_environment_and_its_output_is_logged(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO", "kmini.init")
    script(tmp_path, 'pwd; echo "$WHO"; echo wrong >&2; printf "\\033[31mred"', WHO="me").run()
    assert [record.getMessage() for record in caplog.records] == [
        f"10.sh: {tmp_path}",
        "10.sh: me",
        "10.sh: wrong",
        "10.sh: \\x1b[31mred",
    ]


def test_a_very_long_line_is_logged_in_parts(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO", "kmini.init")
    script(tmp_path, "head -c 10000 /dev/zero | tr '\\0' x").run()
    assert [len(record.getMessage()) - len("10.sh: ") for record in caplog.records] == [4000, 4000, 2000]


@pytest.mark.parametrize(("text", "how"), [("exit 3", "exit code 3"), ("kill -9 $$", "signal 9"), ("(", "exit code 2")])
def test_one_that_fails_says_how(tmp_path: Path, text: str, how: str) -> None:
    assert refusal_of(script(tmp_path, text).run) == f"10.sh: ended with {how}; the log has its output"


def test_one_that_takes_too_long_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    text = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    said = refusal_of(script(tmp_path, text, timeout_ms=1_000 * PATIENCE).run)
    assert said.startswith(f"10.sh: did not end within {PATIENCE}000 ms, and was ended; --init-timeout-ms or ")
    pid = (tmp_path / "pid").read_text().strip()
    until(lambda: is_gone(pid), "the child of the script goes on")


def is_gone(pid: str) -> bool:
    """Whether a process has ended: a zombie that its new parent has not read yet has, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_program_that_it_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid").run()
    pid = int((tmp_path / "pid").read_text())
    assert not is_gone(str(pid))
    os.kill(pid, 9)


def test_one_that_is_ended_before_it_begins_does_not_begin(tmp_path: Path) -> None:
    one = script(tmp_path, f"touch {tmp_path}/ran")
    one.end()
    assert refusal_of(one.run) == "10.sh: was ended before it began"
    assert not (tmp_path / "ran").exists()


def test_it_can_be_ended_while_it_runs(tmp_path: Path) -> None:
    one = script(tmp_path, f"touch {tmp_path}/begun; exec sleep 600")
    said: list[str] = []
    runs = threading.Thread(target=lambda: said.append(refusal_of(one.run)))
    runs.start()
    until((tmp_path / "begun").exists, "the script does not begin")
    one.end()
    runs.join(60)
    assert said == ["10.sh: ended with signal 9; the log has its output"]


def test_line_ends_of_windows_are_named_before_it_is_run(tmp_path: Path) -> None:
    said = refusal_of(script(tmp_path, "# first\nkmini topic list\r\n").check)
    assert said == "10.sh, line 2: ends as lines of Windows do (CRLF), and sh needs LF alone"


def test_without_sh_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = script(tmp_path, "true", PATH=str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal_of(one.run) == "10.sh: cannot be run by sh: No such file or directory"
