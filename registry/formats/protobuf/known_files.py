"""The files that every schema may import without naming them as references, as Confluent's registry and clients have
it: Protobuf's own, google/type where the package googleapis-common-protos is installed, and Confluent's."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2 as pb

from kmini.registry.formats.protobuf.linking import link_names
from kmini.registry.formats.protobuf.options import interpret_own_options
from kmini.registry.formats.protobuf.parser import parse
from kmini.registry.formats.protobuf.walk import symbols_of

_OF_PROTOBUF = (
    "any api compiler/plugin descriptor duration empty field_mask source_context struct timestamp type wrappers"
)
_OF_GOOGLE_TYPE = (
    "calendar_period color date datetime dayofweek decimal expr fraction interval latlng localized_text money month "
    "phone_number postal_address quaternion timeofday"
)
_MODULES = {
    f"google/{package}/{name}.proto": f"google.{package}.{name.replace('/', '.')}_pb2"
    for package, names in (("protobuf", _OF_PROTOBUF), ("type", _OF_GOOGLE_TYPE))
    for name in names.split()
}
"""The modules that hold the descriptors of the files. Only these are imported, whatever a schema names."""

_TEXTS = {
    # Meta tags a schema for data contracts: numbers and types are those that Confluent's clients register.
    "confluent/meta.proto": """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
option go_package = "../confluent";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    "confluent/type/variant.proto": """
syntax = "proto3";
package confluent.type;
message Variant { bytes metadata = 1; bytes value = 2; }
""",
    # The path that the decimals had before.
    "confluent/types/decimal.proto": 'syntax = "proto3"; import public "confluent/type/decimal.proto";',
}


class KnownFile(NamedTuple):
    """A file that is linked already. It shows what it imports, too: of these files, only the one of a former path
    imports others for that, and the others' names are no other schema's."""

    serialized: bytes
    """Its FileDescriptorProto."""
    imports: tuple[str, ...]
    symbols: dict[str, str]
    """The kinds of the full names that it declares."""


@cache
def known_file(path: str) -> KnownFile | None:
    """The file of that path; None where the path is no known file's."""
    if path in _TEXTS:
        return _known(_linked(path, parse(_TEXTS[path])))
    if path not in _MODULES:
        return None
    try:
        module = import_module(_MODULES[path])
    except ModuleNotFoundError:
        return None  # googleapis-common-protos is not installed
    file = pb.FileDescriptorProto()
    file.ParseFromString(module.DESCRIPTOR.serialized_pb)
    return _known(file)


def _known(file: Any) -> KnownFile:
    return KnownFile(file.SerializeToString(), tuple(file.dependency), symbols_of(file))


def _linked(path: str, file: Any) -> Any:
    file.name = path
    symbols = symbols_of(file)
    for imported in file.dependency:
        known = known_file(imported)
        assert known is not None, f"{path} imports known files alone"
        symbols |= known.symbols
    link_names(file, symbols.get)
    interpret_own_options(file)
    return file
