"""What a user of the wheel does first, away from the repository: the command, and a broker inside a program."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

BIN = Path(sys.executable).parent


def kmini(*arguments: str, stdin: str = "") -> str:
    command = [BIN / "kmini", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, timeout=30).stdout


def main() -> None:
    import kmini as package
    from kmini.protocol.records import load_kernel

    assert find_spec("cython") is None, "Cython is there, so this cannot show that kmini runs without it"
    assert Path(package.__file__).is_relative_to(sys.prefix), f"not the installed package: {package.__file__}"
    with tempfile.TemporaryDirectory() as directory:
        command = [BIN / "kmini", "serve", "--port", "0", "--data-dir", directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                kmini("topic", "create", "greetings", "--bootstrap-server", address)
                kmini("produce", "greetings", "--bootstrap-server", address, stdin="hello\nworld\n")
                consumed = kmini("consume", "greetings", "--bootstrap-server", address)
                assert consumed.splitlines() == ["hello", "world"], consumed
            finally:
                server.terminate()
    with package.Broker() as broker:
        assert broker.bootstrap_servers.startswith("127.0.0.1:")
    kernel = "compiled" if load_kernel.IS_COMPILED else "interpreted"
    print(f"kmini {version('kmini')} works without Cython; the record kernel is {kernel}")


if __name__ == "__main__":
    main()
