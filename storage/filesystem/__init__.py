"""Files and directories: the one way from storage to the disk.

- `interface`: what storage asks of a file system, and what it promises about names, bytes and threads. Where to begin
  reading
- `atomic_write`: replacing a file so that a crash leaves the old content or the new one
- `os_filesystem`, `os_file`: the operating system's files, which outnumber its descriptors
- `memory_filesystem`, `memory_nodes`, `faults`: the file system that tests kill, cut from power, and let fail
- `live_faults`: the operating system's files in a running broker, which a test lets fail
"""

from .atomic_write import make_directory_durable, put_in_place, write_aside, write_atomically
from .interface import Buffer, File, FileSystem, Lock, LockHeld, Names
from .os_filesystem import OsFileSystem

__all__ = [
    "Buffer",
    "File",
    "FileSystem",
    "Lock",
    "LockHeld",
    "Names",
    "OsFileSystem",
    "make_directory_durable",
    "put_in_place",
    "write_aside",
    "write_atomically",
]
