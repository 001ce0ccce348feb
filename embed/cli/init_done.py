"""Which files of an init directory were run for the data of a data directory, so that a start with kept data does not
run them again. The data directory remembers it in a file."""

from __future__ import annotations

import json
import os
from typing import Any

from kmini.cli.init_file import InitError, InitFile
from kmini.storage.filenames import INIT_DONE
from kmini.storage.filesystem import OsFileSystem, write_atomically

_BEGUN, _DONE = "begun", "done"


class DoneFiles:
    """The files that were run for the data of a cluster."""

    def __init__(self, data_dir: str, cluster_id: str) -> None:
        """Read what the data directory remembers of this cluster. Raises InitError."""
        self._path = os.path.join(data_dir, INIT_DONE)
        self._cluster_id = cluster_id
        self._files: dict[str, dict[str, str]] = {}
        try:
            with open(self._path, encoding="utf-8") as file:
                document: Any = json.load(file)
            if document["cluster_id"] == cluster_id:  # else it belongs to data that are gone
                self._files = {
                    name: {"digest": one["digest"], "state": one["state"]} for name, one in document["files"].items()
                }
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InitError(
                f"{INIT_DONE} of the data directory cannot be read; it says which files were run, and without it all "
                "of them are run again"
            ) from error

    def is_done(self, file: InitFile) -> bool:
        """Whether an earlier start has run the file to its end."""
        return self._state(file) == _DONE

    def is_begun(self, file: InitFile) -> bool:
        """Whether an earlier start has begun to run the file, and not finished."""
        return self._state(file) == _BEGUN

    def has_changed(self, file: InitFile, digest: str) -> bool:
        """Whether the file had another content when it was run."""
        return self._files[file.name]["digest"] != digest

    def begin(self, file: InitFile, digest: str) -> None:
        """Remember that the file is being run. Raises OSError."""
        self._remember(file, digest, _BEGUN)

    def end(self, file: InitFile, digest: str) -> None:
        """Remember that the file was run. Raises OSError."""
        self._remember(file, digest, _DONE)

    def _state(self, file: InitFile) -> str:
        return self._files.get(file.name, {}).get("state", "")

    def _remember(self, file: InitFile, digest: str, state: str) -> None:
        self._files[file.name] = {"digest": digest, "state": state}
        text = json.dumps({"cluster_id": self._cluster_id, "files": self._files}, indent=1)
        write_atomically(OsFileSystem(), self._path, text.encode())
