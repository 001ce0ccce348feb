"""Completion in shells: what `kmini completion` prints works, and costs no import of a command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

BIN = os.path.dirname(sys.executable)


def completions(*words: str) -> list[str]:
    """Bash's completions for the last of these words, after it has read what `kmini completion bash` prints."""
    script = """
        eval "$(kmini completion bash)"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        compopt() { :; }
        _kmini_completion kmini
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    finished = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return finished.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["kmini", "t"], ["topic", "txn", "trace"]),
        (["kmini", "topic", "de"], ["delete", "describe"]),
        (["kmini", "produce", "t", "--acks", ""], ["all", "-1", "1", "0"]),
        (["kmini", "config", "describe", ""], ["topic", "broker", "group"]),
        (["kmini", "consume", "--time"], ["--timestamps", "--timeout-ms"]),
        (["kmini", "completion", ""], ["bash", "zsh", "fish"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_bash_completes_commands_options_and_values(words: list[str], offered: list[str]) -> None:
    assert completions(*words) == offered


@pytest.mark.parametrize(
    ("shell", "said"), [("bash", "complete -o"), ("zsh", "#compdef kmini"), ("fish", "complete --no-files --command")]
)
def test_each_shell_gets_its_script(run, shell: str, said: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert said in result.stdout
    assert "_KMINI_COMPLETE" in result.stdout


def test_an_unknown_shell_is_refused_with_the_known_ones(run) -> None:
    result = run("completion", "tcsh")
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr


def test_completing_a_command_imports_no_command() -> None:
    code = "import sys; from kmini.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "COMP_WORDS": "kmini t", "COMP_CWORD": "1", "_KMINI_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert finished.stdout.split() == ["plain,topic", "plain,txn", "plain,trace"]
    assert "kmini.cli.topic" not in finished.stderr.split()
