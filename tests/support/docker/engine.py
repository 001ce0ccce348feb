"""An engine in place of Docker's: answers the requests of Testcontainers' modules, and makes the containers of
`containers.py`. It has one image, kmini's.

A client is told where it is by DOCKER_HOST (`Engine.environ`). What no module asks is refused with 501, and kept in
`Engine.refused`, so that a test notices.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import secrets
import struct
import tarfile
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from support.docker.containers import HOSTNAME, Container
from support.docker.dockerfile import BROKER, last_of, read_stages, tag

API_VERSION = "1.44"
NETWORK = {
    "Name": "bridge",
    "Id": "b" * 64,
    "Driver": "bridge",
    "Scope": "local",
    "Labels": {},
    "Options": {},
    "IPAM": {"Driver": "default", "Config": [{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}]},
}
STREAMS = {"stdout": 1, "stderr": 2}


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Box:
    """A container as the engine's clients see it."""

    def __init__(self, document: dict[str, Any], name: str) -> None:
        self.id = secrets.token_hex(32)
        self.document, self.name = document, name
        self.ports: dict[str, int] = {}
        """The published port of the host by `PORT/tcp` of the container."""
        self.written: dict[str, str] = {}
        """The files that were copied into it, by their paths."""
        self.container: Container | None = None
        self.stack = ExitStack()

    @property
    def state(self) -> str:
        if self.container is None:
            return "created"
        return "running" if self.container.process.poll() is None else "exited"

    @property
    def command(self) -> list[str]:
        """Entry point and command, as its creator gave them."""
        return [*_words(self.document.get("Entrypoint")), *_words(self.document.get("Cmd"))]

    @property
    def environ(self) -> dict[str, str]:
        """The variables that its creator gave."""
        return dict(text.partition("=")[::2] for text in self.document.get("Env") or ())

    def start(self) -> None:
        image = last_of(read_stages()[BROKER])
        root = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="kmini-root-"))
        self.container = self.stack.enter_context(
            Container(Path(root), self.command or image["CMD"].command, self.environ)
        )
        wanted = {*(self.document.get("ExposedPorts") or ())}
        wanted |= {*((self.document.get("HostConfig") or {}).get("PortBindings") or ())}
        for port in sorted(wanted):
            self.ports[port] = self.container.publish(int(port.partition("/")[0]))

    def remove(self) -> None:
        self.stack.close()

    def running(self) -> Container:
        if self.container is None:
            raise Refusal(409, f"container {self.id} is not running")
        return self.container

    def inspected(self) -> dict[str, Any]:
        state = self.state
        ports = {port: [{"HostIp": "127.0.0.1", "HostPort": str(published)}] for port, published in self.ports.items()}
        network = {"NetworkID": NETWORK["Id"], "IPAddress": "172.17.0.2", "Gateway": "172.17.0.1", "Aliases": None}
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Created": "2026-01-01T00:00:00.000000000Z",
            "Image": IMAGE_ID,
            "Config": {
                "Labels": {},
                "Tty": False,
                **{key: value for key, value in self.document.items() if key not in ("HostConfig", "NetworkingConfig")},
                "Hostname": HOSTNAME,
            },
            "HostConfig": {"NetworkMode": "bridge", **(self.document.get("HostConfig") or {})},
            "State": {
                "Status": state,
                "Running": state == "running",
                "Paused": False,
                "Restarting": False,
                "OOMKilled": False,
                "Dead": False,
                "Pid": 1,
                "ExitCode": 0,
                "Error": "",
                "StartedAt": "2026-01-01T00:00:00.000000000Z",
                "FinishedAt": "0001-01-01T00:00:00Z",
            },
            "NetworkSettings": {"Ports": ports, "Networks": {"bridge": network}, **network},
            "Mounts": [],
        }

    def listed(self) -> dict[str, Any]:
        """The container as a list of containers shows it."""
        full = self.inspected()
        ports = [
            {"IP": "127.0.0.1", "PrivatePort": int(port.partition("/")[0]), "PublicPort": published, "Type": "tcp"}
            for port, published in self.ports.items()
        ]
        return {
            **{key: full[key] for key in ("Id", "Image", "NetworkSettings", "HostConfig")},
            "Names": [full["Name"]],
            "Labels": full["Config"]["Labels"] or {},
            "State": self.state,
            "Status": self.state,
            "Ports": ports,
        }


class Engine:
    """Serves for the time of a block."""

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self.executions: dict[str, tuple[Box, list[str], list[int]]] = {}
        """Programs that run beside a container's own, with their container, and their exit code once it is known."""
        self.refused: list[str] = []
        """Requests that were refused because the engine does not know them."""
        engine = self

        class Handler(_Handler):
            def __init__(self, *arguments: Any) -> None:
                self.engine = engine
                super().__init__(*arguments)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def environ(self) -> dict[str, str]:
        """The variables that lead the modules of all languages here."""
        return {
            "DOCKER_HOST": f"tcp://127.0.0.1:{self._server.server_port}",
            "TESTCONTAINERS_RYUK_DISABLED": "true",
            "TESTCONTAINERS_HOST_OVERRIDE": "localhost",
            "TC_HOST": "localhost",
            "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
            "TESTCONTAINERS_CHECKS_DISABLE": "true",
        }

    def __enter__(self) -> Engine:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for box in self.boxes.values():
            box.remove()
        self.boxes.clear()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def said(self) -> str:
        """What the containers have said."""
        return "\n".join(box.container.said() for box in self.boxes.values() if box.container is not None)

    def box(self, name: str) -> Box:
        for box in self.boxes.values():
            if box.id.startswith(name) or box.name == name:
                return box
        raise Refusal(404, f"No such container: {name}")


IMAGE_ID = "sha256:" + "a" * 64


def _image(name: str) -> dict[str, Any]:
    if name not in (f"kmini:{tag()}", f"docker.io/library/kmini:{tag()}", IMAGE_ID):
        raise Refusal(404, f"No such image: {name}")
    stage = last_of(read_stages()[BROKER])
    return {
        "Id": IMAGE_ID,
        "RepoTags": [f"kmini:{tag()}"],
        "RepoDigests": [],
        "Created": "2026-01-01T00:00:00Z",
        "Os": "linux",
        "Architecture": "amd64",
        "Size": 1,
        "Config": {"Cmd": stage["CMD"].command, "Env": stage["ENV"].words, "Labels": {}, "ExposedPorts": {}},
    }


def _words(given: Any) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())


class _Handler(BaseHTTPRequestHandler):
    """A connection of a client."""

    protocol_version = "HTTP/1.1"
    engine: Engine

    # --- requests

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(re.sub(r"^/v\d+\.\d+(?=/)", "", parts.path))
        query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self._body()
        try:
            for verb, pattern, answer in ROUTES:
                match = re.fullmatch(pattern, path)
                if match is not None and self.command in verb.split("|"):
                    answer(self, match.groupdict(), query, body)
                    return
            self.engine.refused.append(f"{self.command} {self.path}")
            raise Refusal(501, f"{self.command} {path} is not known here")
        except Refusal as refusal:
            self._json({"message": str(refusal)}, refusal.status)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    # --- answers

    def _json(self, document: Any, status: int = 200) -> None:
        self._send(json.dumps(document).encode(), status, "application/json")

    def _send(self, body: bytes, status: int = 200, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Api-Version", API_VERSION)
        self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def ping(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._send(b"OK")

    def version(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        told = {"Version": "27.0.0", "ApiVersion": API_VERSION, "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"}
        self._json(told)

    def info(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._json(
            {
                "ID": "none",
                "ServerVersion": "27.0.0",
                "OperatingSystem": "Linux",
                "OSType": "linux",
                "Architecture": "x86_64",
                "NCPU": 2,
                "MemTotal": 1 << 32,
                "Labels": [],
                "IndexServerAddress": "",
                "RegistryConfig": {"IndexConfigs": {}, "InsecureRegistryCIDRs": [], "Mirrors": []},
            }
        )

    def images(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._json([{**_image(IMAGE_ID), "Created": 1_767_225_600}])  # a number here alone

    def image(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._json(_image(about["name"]))

    def prune(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._json({"SpaceReclaimed": 0})

    def networks(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._json([NETWORK])

    def network(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._json(NETWORK)

    # --- containers

    def create(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        document = json.loads(body)
        _image(document["Image"])
        box = Box(document, query.get("name") or f"box-{len(self.engine.boxes)}")
        self.engine.boxes[box.id] = box
        self._json({"Id": box.id, "Warnings": []}, 201)

    def listed(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        wanted = json.loads(query.get("filters") or "{}")
        ids = wanted.get("id", [""])
        ids = [key for key, value in ids.items() if value] if isinstance(ids, dict) else ids
        found = [box for box in self.engine.boxes.values() if any(box.id.startswith(one) for one in ids)]
        self._json([box.listed() for box in found if not wanted.get("label")])

    def start(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self.engine.box(about["id"]).start()
        self._send(b"", 204)

    def inspect(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        self._json(self.engine.box(about["id"]).inspected())

    def end(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        box = self.engine.box(about["id"])
        box.remove()
        if self.command == "DELETE":
            del self.engine.boxes[box.id]
        self._send(b"", 204)

    def put_archive(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        box = self.engine.box(about["id"])
        container = box.running()
        data = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if member.isfile():
                    content = archive.extractfile(member)
                    assert content is not None
                    path = f"{query['path'].rstrip('/')}/{member.name.lstrip('/')}"
                    box.written[path] = content.read().decode()
                    container.put(path, box.written[path], member.mode)
        self._send(b"")

    def logs(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        container = self.engine.box(about["id"]).running()
        streams = [name for name in STREAMS if query.get(name, "").lower() in ("1", "true")]
        follows = query.get("follow", "").lower() in ("1", "true")
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for name, line in container.output(streams, follows=follows):
            self._chunk(_frame(name, f"{line}\n".encode()))
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    # --- programs beside the container's own

    def execution(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        box = self.engine.box(about["id"])
        number = secrets.token_hex(32)
        self.engine.executions[number] = (box, json.loads(body)["Cmd"], [])
        self._json({"Id": number}, 201)

    def execute(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        box, command, codes = self.engine.executions[about["id"]]
        finished = box.running().execute(*command)
        codes.append(finished.returncode)
        output = _frame("stdout", finished.stdout.encode()) + _frame("stderr", finished.stderr.encode())
        if "upgrade" in self.headers.get("Connection", "").lower():
            self.send_response(101)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "tcp")
            self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
            self.end_headers()
            self.wfile.write(output)
            self.close_connection = True
            return
        self._send(output, 200, "application/vnd.docker.multiplexed-stream")

    def executed(self, about: dict[str, str], query: dict[str, str], body: bytes) -> None:
        _, _, codes = self.engine.executions[about["id"]]
        self._json({"ID": about["id"], "Running": not codes, "ExitCode": codes[0] if codes else None, "Pid": 2})


def _frame(stream: str, data: bytes) -> bytes:
    """A part of a stream that carries stdout and stderr."""
    return struct.pack(">BxxxL", STREAMS[stream], len(data)) + data if data else b""


Answer = Callable[[_Handler, dict[str, str], dict[str, str], bytes], None]

ROUTES: tuple[tuple[str, str, Answer], ...] = (
    ("GET|HEAD", "/_ping", _Handler.ping),
    ("GET", "/version", _Handler.version),
    ("GET", "/info", _Handler.info),
    ("GET", "/images/json", _Handler.images),
    ("GET", "/images/(?P<name>.+)/json", _Handler.image),
    ("POST", "/(containers|networks|volumes|images)/prune", _Handler.prune),
    ("GET", "/networks", _Handler.networks),
    ("GET", "/networks/[^/]+", _Handler.network),
    ("POST", "/containers/create", _Handler.create),
    ("GET", "/containers/json", _Handler.listed),
    ("POST", "/containers/(?P<id>[^/]+)/start", _Handler.start),
    ("GET", "/containers/(?P<id>[^/]+)/json", _Handler.inspect),
    ("POST", "/containers/(?P<id>[^/]+)/(stop|kill|wait)", _Handler.end),
    ("DELETE", "/containers/(?P<id>[^/]+)", _Handler.end),
    ("PUT", "/containers/(?P<id>[^/]+)/archive", _Handler.put_archive),
    ("GET", "/containers/(?P<id>[^/]+)/logs", _Handler.logs),
    ("POST", "/containers/(?P<id>[^/]+)/exec", _Handler.execution),
    ("POST", "/exec/(?P<id>[^/]+)/start", _Handler.execute),
    ("GET", "/exec/(?P<id>[^/]+)/json", _Handler.executed),
)
