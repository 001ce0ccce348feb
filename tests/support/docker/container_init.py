"""The first program of a container without an engine: makes the image's file system, and becomes the command.

Run as root in namespaces of its own (mounts, processes, network, host name), with one argument: the file descriptor of
a pipe. It reads a `Spec` in JSON from its standard input, and writes the process number to the pipe once the container
is ready, just before the command starts.

The base image `python:3.13-slim` is this machine's `/usr` and the Python that runs the tests, in an otherwise empty
root. On it, the instructions of the broker's stage run as a build runs them, but for what comes from the build stage:
kmini itself is the one under test.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from support.docker.dockerfile import BROKER, ROOT, Instruction, read_stages

BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH in python:3.13-slim."""

PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"

SIOCSIFFLAGS = 0x8914
PR_SET_NO_NEW_PRIVS = 38
IFF_UP_RUNNING = 0x41


class Spec(NamedTuple):
    """What a container is made of."""

    root: str
    """An empty directory, which becomes the mount point of the container's file system."""
    command: list[str]
    environ: dict[str, str]
    hostname: str
    tmpfs: Sequence[str] = ()
    """Directories in memory that everybody may write to, as of `tmpfs:` in a compose file."""
    binds: Mapping[str, str] = MappingProxyType({})
    """Directories of the machine by their place in the container, where they cannot be written."""
    is_read_only: bool = False
    """Whether the root cannot be written, as with `read_only: true` in a compose file. The data directory is a volume
    then, and no program can gain rights."""


def main() -> None:
    spec = Spec(**json.load(sys.stdin))
    ready = int(sys.argv[1])
    pid = os.readlink("/proc/self")  # of the machine, whose /proc it still is
    mount("--make-rprivate", "/")
    root = Path(spec.root)
    make_base(root, spec.hostname)
    environ, user, directory = build(root)
    for path in spec.tmpfs:
        mount("-t", "tmpfs", "-o", "mode=1777", "none", str(root / path.lstrip("/")))
    for path, source in spec.binds.items():
        mount("--bind", source, str(root / path.lstrip("/")))
        mount("-o", "remount,ro,bind", str(root / path.lstrip("/")))
    if spec.is_read_only:
        make_read_only(root, environ["KAFKA_LOG_DIRS"], user)
    raise_loopback()
    socket.sethostname(spec.hostname)
    os.chroot(root)
    os.chdir(directory)
    os.setgroups([])
    os.setgid(0)
    os.setuid(user)
    os.set_inheritable(ready, False)
    os.write(ready, f"{pid}\n".encode())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    environ.update(spec.environ)
    os.environ["PATH"] = environ["PATH"]  # where the command is looked for
    os.execvpe(spec.command[0], spec.command, environ)


# --- the base image


def make_base(root: Path, hostname: str) -> None:
    """Mount a root with the system's programs, the tests' Python and kmini, and nothing else of the machine."""
    mount("-t", "tmpfs", "-o", "mode=755", "none", str(root))
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if (where := Path("/", name)).is_symlink():
            (root / name).symlink_to(os.readlink(where))
        elif where.exists():
            overlay(where, root)
    overlay(Path("/usr"), root)
    for name in ("dev", "etc", "mnt", "opt", "proc", "root", "run", "tmp", "var/lib", "var/log", "work"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    mount("--rbind", "/dev", str(root / "dev"))
    mount("-t", "proc", "proc", str(root / "proc"))
    etc = root / "etc"
    for name in ("alternatives", "ld.so.cache", "nsswitch.conf"):
        if (where := Path("/etc", name)).is_dir():
            shutil.copytree(where, etc / name, symlinks=True)
        elif where.exists():
            shutil.copy(where, etc / name)
    (etc / "passwd").write_text(PASSWD)
    (etc / "group").write_text(GROUPS)
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.0.2 {hostname}\n")
    for prefix in {str(ROOT), sys.prefix, sys.base_prefix}:
        if not prefix.startswith("/usr/"):
            target = root / prefix.lstrip("/")
            target.mkdir(parents=True, exist_ok=True)
            mount("--bind", prefix, str(target))
            mount("-o", "remount,ro,bind", str(target))


def overlay(directory: Path, root: Path) -> None:
    """Show a directory of the machine in the root, and keep what is written there in the root's memory."""
    target = root / directory.name
    changes = [root / f".{kind}-{directory.name}" for kind in ("upper", "work")]
    for path in (target, *changes):
        path.mkdir()
    upper, work = changes
    mount("-t", "overlay", "-o", f"lowerdir={directory},upperdir={upper},workdir={work}", "overlay", str(target))


def make_read_only(root: Path, data_dir: str, user: int) -> None:
    """Let nothing be written to the root. A volume is mounted for the data, as its directory in the image is."""
    mount("-t", "tmpfs", "-o", f"uid={user},gid=0,mode=2775", "none", str(root / data_dir.lstrip("/")))
    for path in (root / "usr", root):
        mount("-o", "remount,ro,bind", str(path))
    if ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError("prctl: no_new_privs was refused")


# --- the image's own part


def build(root: Path) -> tuple[dict[str, str], int, str]:
    """Run the instructions of the broker's stage; return the image's environment, user and working directory."""
    environ, user, directory = {"PATH": BASE_PATH}, 0, "/"
    for instruction in read_stages()[BROKER]:
        if instruction.name == "COPY":
            copy(instruction, root)
        elif instruction.name == "RUN":
            command = ["chroot", str(root), "sh", "-c", instruction.rest]
            subprocess.run(command, env=environ, check=True, stdout=sys.stderr)
        elif instruction.name == "ENV":
            for word in instruction.words:
                name, _, value = word.partition("=")
                environ[name] = value.replace("$PATH", environ["PATH"])
        elif instruction.name == "USER":
            user = int(instruction.rest)
        elif instruction.name == "WORKDIR":
            directory = instruction.rest
            (root / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return environ, user, directory


def copy(instruction: Instruction, root: Path) -> None:
    """Copy a directory, every file with the mode that the instruction gives. What is copied from the build stage is
    the kmini under test."""
    source, target = instruction.words
    to = root / target.lstrip("/")
    to.mkdir(parents=True, exist_ok=True)
    if "from" in instruction.options:
        (to / "bin").mkdir()
        program = to / "bin" / "kmini"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kmini "$@"\n')
        program.chmod(0o755)
        return
    for file in (ROOT / source).iterdir():
        shutil.copyfile(file, to / file.name)
        (to / file.name).chmod(int(instruction.options["chmod"], 8))


# --- the system's calls


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def raise_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP_RUNNING))


if __name__ == "__main__":
    main()
