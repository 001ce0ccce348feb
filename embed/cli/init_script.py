"""Scripts of an init directory: run by sh within a time, their output in the log."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress

from kmini.cli.init_file import InitFile
from kmini.cli.visible import visible

log = logging.getLogger("kmini.init")

MOST_OF_A_LINE = 4_000
"""Bytes of a line of output that one log line has."""

READ_S = 1.0
"""Seconds for the output that is left when a script has ended. A program that it leaves behind may keep it open."""


class Script:
    """A script that sh runs."""

    def __init__(self, file: InitFile, environ: Mapping[str, str], timeout_ms: int) -> None:
        """`environ` is its whole environment. It is ended after `timeout_ms`."""
        self._file, self._environ, self._timeout_ms = file, environ, timeout_ms
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False
        self._changes = threading.Lock()

    def check(self) -> None:
        """Raise InitError for line ends that sh takes as parts of words. Blocks."""
        lines = self._file.read().split("\n")
        for number, line in enumerate(lines, start=1):
            if line.endswith("\r"):
                raise self._file.error("ends as lines of Windows do (CRLF), and sh needs LF alone", number)

    def run(self) -> None:
        """Run it, from its own directory. Blocks. Raises InitError if it fails or takes too long."""
        process = self._begin()
        reader = threading.Thread(target=self._log_output, daemon=True, name=f"output of {self._file.shown}")
        reader.start()
        try:
            code = process.wait(self._timeout_ms / 1000)
        except subprocess.TimeoutExpired:
            self.end()
            process.wait()
            raise self._file.error(
                f"did not end within {self._timeout_ms} ms, and was ended; --init-timeout-ms or KMINI_INIT_TIMEOUT_MS "
                "gives it another time"
            ) from None
        finally:
            reader.join(READ_S)
        if code:
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise self._file.error(f"ended with {how}; the log has its output")

    def _begin(self) -> subprocess.Popen[bytes]:
        with self._changes:
            if self._is_ended:
                raise self._file.error("was ended before it began")
            try:
                self._process = subprocess.Popen(
                    ["sh", self._file.path],
                    cwd=os.path.dirname(self._file.path),
                    env={**self._environ},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise self._file.error(f"cannot be run by sh: {error.strerror}") from error
            return self._process

    def end(self) -> None:
        """End it, with the programs that it has started, if it has not ended."""
        with self._changes:
            self._is_ended = True
            process = self._process
        if process is None or process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()

    def _log_output(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while line := output.readline(MOST_OF_A_LINE):
                text = line.decode(errors="backslashreplace").rstrip("\r\n")
                log.info("%s: %s", self._file.shown, visible(text))
