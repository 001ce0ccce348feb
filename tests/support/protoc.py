"""Google's own compiler of .proto files, from the package grpcio-tools."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2 as pb


def compiled(folder: Path, texts: dict[str, str], *, of: str) -> pb.FileDescriptorProto:
    """The descriptor that protoc makes of the file `of` among `texts`, which are by path. They may import
    Protobuf's own. Skips the test where the package is missing, fails it where protoc refuses the text."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="needs grpcio-tools, for protoc")
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    made = folder / "made.bin"
    own = str(files("grpc_tools") / "_proto")
    assert protoc.main(["protoc", f"-I{folder}", f"-I{own}", f"--descriptor_set_out={made}", of]) == 0
    return pb.FileDescriptorSet.FromString(made.read_bytes()).file[0]
