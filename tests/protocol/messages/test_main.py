"""`python -m kmini.protocol.messages` prints the functions made for a message."""

from __future__ import annotations

import pytest

from kmini.protocol.compile import source_of
from kmini.protocol.messages import DeleteRecordsRequest
from kmini.protocol.messages.__main__ import main as print_source


def test_the_source_can_be_printed_by_name_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_source(["DeleteRecordsRequest", "2"]) == 0
    assert capsys.readouterr().out == source_of(DeleteRecordsRequest, 2)


@pytest.mark.parametrize("arguments", [[], ["DeleteRecordsRequest"], ["Nothing", "1"], ["DeleteRecordsRequest", "9"]])
def test_a_message_that_cannot_be_printed_gives_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_source(arguments) == 2
    assert len(capsys.readouterr().out.splitlines()) == 1
