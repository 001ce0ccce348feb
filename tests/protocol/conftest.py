"""What tests of all messages share: random ones, and what they weigh."""

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol import compile, compiled_codecs, messages
from kmini.protocol.compile import COMPILED_MESSAGES
from kmini.protocol.schema import Message, Struct, Type
from support.extension_modules import FORMS, load_form

INTEGERS = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with `form` runs on both forms of the codecs: compiled, where a message is compiled, and interpreted."""
    if "form" in metafunc.fixturenames:
        metafunc.parametrize("form", FORMS, indirect=True)


@pytest.fixture
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The form of the codecs that the test uses; "compiled" skips it where nothing is compiled."""
    form: str = request.param
    if form == "compiled":
        load_form(compiled_codecs.__name__, form)
    else:
        monkeypatch.setattr(compile, "compiled", lambda cls: ({}, {}))
    for name in COMPILED_MESSAGES:
        monkeypatch.setattr(getattr(messages, name), "_decoders", {})
        monkeypatch.setattr(getattr(messages, name), "_encoders", {})
    return form


@pytest.fixture
def random_message() -> Callable[[type[Message], int, random.Random], Any]:
    """`random_message(cls, version, dice)`: a message with a value in every field that the version has."""
    return random_struct


def random_struct(cls: type[Struct], version: int, dice: random.Random) -> Any:
    values = {}
    for field in cls.__fields__:
        if not field.exists_in(version) or (field.tag is not None and dice.random() < 0.5):
            values[field.name] = [] if field.default == [] else field.default
        else:
            nullable = field.is_nullable_in(version) and field.tag is None
            values[field.name] = random_value(field.type, nullable, version, dice)
    return cls(**values)


def random_value(type_: Type, nullable: bool, version: int, dice: random.Random) -> Any:
    if nullable and dice.random() < 0.3:
        return None
    if type_.struct is not None:
        return random_struct(type_.struct, version, dice)
    if type_.element is not None:
        many = 200 if type_.element.struct is None and dice.random() < 0.1 else 4
        element = type_.element
        return [random_value(element, element.is_nullable, version, dice) for _ in range(dice.randrange(many))]
    assert type_.wire is not None
    match type_.wire.name:
        case "boolean":
            return dice.random() < 0.5
        case "uuid":
            return dice.randbytes(16)
        case "string":
            letters = dice.choice(["abc-._09", "aé", "ж漢字", "a😀"])
            return "".join(dice.choice(letters) for _ in range(dice.choice([0, 1, 7, 130, 300])))
        case "bytes" | "records":
            return dice.randbytes(dice.choice([0, 1, 61, 127, 300, 20_000]))
        case "float64":
            return dice.choice([0.0, -1.5, 1e300, dice.random()])
    bits = INTEGERS[type_.wire.code]
    low, high = (0, (1 << bits) - 1) if type_.wire.code.isupper() else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return dice.choice([0, 1, low, high, dice.randint(low, high)])


@pytest.fixture
def memory_of() -> Callable[[Any], int]:
    """`memory_of(message)`: the bytes that it and all that it holds take, each object counted once."""

    def measure(value: Any) -> int:
        seen: dict[int, int] = {}
        waiting = [value]
        while waiting:
            held = waiting.pop()
            if id(held) not in seen:
                seen[id(held)] = sys.getsizeof(held)
                if isinstance(held, Struct):
                    waiting += [getattr(held, field.name) for field in type(held).__fields__]
                elif isinstance(held, list):
                    waiting += held
        return sum(seen.values())

    return measure
