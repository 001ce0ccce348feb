"""`kmini help`: the same as --help."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "names", [[], ["serve"], ["topic"], ["topic", "create"], ["pipeline", "run"], ["delete-records"]], ids=" ".join
)
def test_help_of_a_command_is_what_its_help_option_prints(run, names: list[str]) -> None:
    result = run("help", *names)
    assert result.exit_code == 0
    assert result.stdout == run(*names, "--help").stdout


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["sevre"], "there is no command 'sevre' (did you mean 'serve'?), the commands are serve, topic"),
        (
            ["topic", "crate"],
            "there is no command 'crate' (did you mean 'create'?), the commands are alter, create, delete",
        ),
        (["produce", "now"], "produce has no commands of its own, so no 'now'"),
    ],
)
def test_help_of_an_unknown_command_lists_the_known_ones(run, names: list[str], said: str) -> None:
    result = run("help", *names)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("group", ["topic", "group", "txn", "config", "log", "pipeline"])
def test_an_unknown_command_of_a_group_lists_the_known_ones(run, group: str) -> None:
    result = run(group, "frobnicate")
    assert result.exit_code == 2
    assert f"kmini {group}: there is no command 'frobnicate', the commands are " in result.stderr
