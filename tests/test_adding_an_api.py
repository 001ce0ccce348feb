"""CONTRIBUTING's checklist for a new API, performed: a made-up API in a copy of the packages.

The copy gets two modules, and a line in each list of modules. A broker of it, in a process of its own, then decodes the
request, lists it, asks for its permission and documents it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.stages import ROOT

MESSAGE = '''
"""Greet (key 1001): a greeting for each topic.

- v0: made up.
"""

from ..errors import NONE
from ..primitives import Array, ErrorCode, String
from ..schema import Request, Response, Struct


class GreetRequest(Request, api_key=1001, versions="0", flexible="0+"):
    class Topic(Struct):
        name: String

    topics: Array[Topic]


class GreetResponse(Response, to=GreetRequest):
    class Topic(Struct):
        name: String
        greeting: String = ""
        error_code: ErrorCode = NONE

    topics: Array[Topic]
'''

HANDLER = '''
"""Greet, version 0: greet each topic.

Apache Kafka has no such request.
"""

from ...protocol.messages.greet import GreetRequest, GreetResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import topic_by_topic
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType


def refused(topic: GreetRequest.Topic, code: int) -> GreetResponse.Topic:
    """Refuse a topic."""
    return GreetResponse.Topic(name=topic.name, error_code=code)


@handles(GreetRequest, needs=[each(AclOperation.DESCRIBE, ResourceType.TOPIC)], guard=topic_by_topic(refused))
async def greet(request: GreetRequest, context: Context) -> GreetResponse:
    """Greet every topic."""
    return GreetResponse(
        topics=[GreetResponse.Topic(name=topic.name, greeting=f"hello {topic.name}") for topic in request.topics]
    )
'''

FILES = {
    "protocol/messages/greet.py": MESSAGE,
    "broker/handlers/greet.py": HANDLER,
}
LINES = {
    "protocol/messages/__init__.py": ('    0: "produce",\n', '    1001: "greet",\n'),
    "broker/api/served_versions.py": ('    "heartbeat": "0-4",\n', '    "greet": "0-0",\n'),
}
"""The line in front of which each list of modules gets its line, and that line."""

PROGRAM = """
import asyncio, importlib.util, json, sys, tempfile
from kmini.broker.broker import BrokerServer
from kmini.broker.security.acls import AclBinding
from kmini.broker.security.resources import AclOperation, PatternType, PermissionType, ResourceType
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.messages import ApiVersionsRequest, GreetRequest
from kmini.testing import Wire

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RULE = AclBinding(
    ResourceType.TOPIC, PatternType.LITERAL, "seen", "User:*", "*", AclOperation.DESCRIBE, PermissionType.ALLOW
)

def ask(bootstrap):
    with Wire(bootstrap) as wire:
        listed = wire.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1")).api_keys
        topics = wire.ask(GreetRequest(topics=[GreetRequest.Topic(name=name) for name in ("seen", "secret")])).topics
    ranges = [(one.min_version, one.max_version) for one in listed if one.api_key == GreetRequest.api_key]
    return ranges, {topic.name: [topic.error_code, topic.greeting] for topic in topics}

async def main(directory):
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "authorizer.class.name": STANDARD}
    broker = await BrokerServer.start(BrokerConfig.parse(settings), directory, is_temporary=True)
    try:
        broker.controller.create_acls([RULE])
        return await asyncio.to_thread(ask, broker.server.listeners[0].address)
    finally:
        await broker.stop()

spec = importlib.util.spec_from_file_location("generate", sys.argv[1])
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)
with tempfile.TemporaryDirectory() as directory:
    ranges, topics = asyncio.run(main(directory))
print(json.dumps({"ranges": ranges, "topics": topics, "page": generate.apis()}))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the package `kmini`: links to the files of this one, and copies of the two lists."""
    package = tmp_path / "kmini"
    package.mkdir()
    _link_all(ROOT / "embed", package)
    for name in {init.parent.name for init in ROOT.glob("*/__init__.py")} - {"embed"}:
        (package / name).mkdir()
        _link_all(ROOT / name, package / name)
    for folder in {(package / path).parent for path in (*FILES, *LINES)}:
        original = folder.resolve()
        folder.unlink()
        folder.mkdir()
        _link_all(original, folder)
    return package


def _link_all(source: Path, target: Path) -> None:
    for path in source.iterdir():
        if path.name != "__pycache__":
            (target / path.name).symlink_to(path)


def test_an_api_is_two_modules_and_two_lines_in_lists(copy: Path, tmp_path: Path) -> None:
    for path, text in FILES.items():
        (copy / path).write_text(text.lstrip(), encoding="utf-8")
    for path, (before, line) in LINES.items():
        listed = (copy / path).read_text(encoding="utf-8")
        assert listed.count(before) == 1, path
        (copy / path).unlink()  # the link, not the file that it points to
        (copy / path).write_text(listed.replace(before, line + before), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT / "docs" / "generate.py")],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ranges"] == [[0, 0]]
    assert found["topics"] == {"seen": [0, "hello seen"], "secret": [29, ""]}
    assert "| 1001 | `Greet` | 0–0 | Greet each topic. | DESCRIBE on each topic |" in found["page"]


def test_the_checklist_names_what_this_test_does() -> None:
    section = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Adding an API")[2].partition("\n## ")[0]
    )
    for path in (*FILES, *LINES):
        folder, _, name = path.rpartition("/")
        assert f"`{folder}/{name.replace('greet', '<api>')}`" in section
    assert "tests/test_adding_an_api.py" in section
