"""docker/Dockerfile, read: its stages and their instructions."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
DOCKER = ROOT / "docker"
BROKER = "broker"
"""The stage that is the image."""


class Instruction(NamedTuple):
    """One instruction, such as `COPY --chmod=755 docker/bin /opt/kmini/bin`."""

    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """Its words without its options."""
        return [word for word in shlex.split(self.rest) if not word.startswith("--")]

    @property
    def options(self) -> dict[str, str]:
        """Its options: those of `--name=value`, before the first other word."""
        return dict(re.findall(r"--([\w-]+)=(\S+)", self.rest))

    @property
    def command(self) -> list[str]:
        """The list in JSON that it ends with."""
        found: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return found


def read_stages() -> dict[str, list[Instruction]]:
    """The instructions by the name of their stage."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, list[Instruction]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction = Instruction(*re.split(r"\s+", line, maxsplit=1))
        if instruction.name == "FROM":
            current = found[instruction.words[-1]] = []
        current.append(instruction)
    return found


def last_of(instructions: list[Instruction]) -> dict[str, Instruction]:
    """The instructions of a stage by name; of several of one name, the last."""
    return {instruction.name: instruction for instruction in instructions}


def tag() -> str:
    """The tag that the image is published with: its label says it."""
    label = last_of(read_stages()[BROKER])["LABEL"]
    return dict(word.partition("=")[::2] for word in label.words)["org.opencontainers.image.ref.name"]
