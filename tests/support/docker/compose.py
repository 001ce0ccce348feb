"""docker/compose.yaml and the files that are added to it, read as `docker compose config` reads them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from support.docker.dockerfile import DOCKER

PROGRAM = Path(__file__).resolve().parent / "compose_model"
"""A program in Go with compose's own parser."""

OFFLINE = {"GOPROXY": "off", "GOFLAGS": "-mod=readonly"}


@cache
def why_not() -> str:
    """Why the files cannot be read so here; empty where they can."""
    if shutil.which("go") is None:
        return "no go on the path"
    listed = subprocess.run(
        ["go", "list", "-deps", "."], cwd=PROGRAM, env={**os.environ, **OFFLINE}, capture_output=True, check=False
    )
    return "compose's parser is missing (`make compose-model` fetches it)" if listed.returncode else ""


def compose_model(*files: str, **environ: str) -> dict[str, Any]:
    """The project that files of docker/ make, with all profiles. AssertionError for what compose refuses."""
    variables = {name: value for name, value in os.environ.items() if name != "KMINI_HTTP_TOKEN"}
    finished = subprocess.run(
        ["go", "run", ".", *(str(DOCKER / name) for name in files)],
        cwd=PROGRAM,
        env={**variables, **OFFLINE, **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    model: dict[str, Any] = json.loads(finished.stdout)
    return model
