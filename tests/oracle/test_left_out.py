"""Requests that are left out (docs/differences.md): Kafka's own programs say so and end, and wait for nothing."""

from __future__ import annotations

import pytest

from support.for_each import for_each
from support.java_peer import RunTool

PROGRAMS = (
    (
        "MetadataQuorumCommand",
        ("remove-controller", "--controller-id", 9, "--controller-directory-id", "A" * 22),
        "The node does not support REMOVE_RAFT_VOTER",
    ),
)
"""Programs with their arguments, and what they say."""


@pytest.mark.parametrize("server", ["kmini"], indirect=True)
@for_each("program", PROGRAMS)
def test_a_program_that_needs_one_says_so(tool: RunTool, program: tuple[str, tuple[object, ...], str]) -> None:
    name, arguments, told = program
    finished = tool(name, *arguments)
    said = finished.stdout + finished.stderr
    assert "UnsupportedVersionException" in said
    assert told in said
