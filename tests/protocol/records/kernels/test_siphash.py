"""The hash of keys is SipHash, in both forms."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kmini.protocol.records import load_kernel
from support.for_each import for_each

SECRET = bytes(range(16))
INTERPRETED = load_kernel.load("sieve", interpreted=True)

# Of the authors of SipHash (github.com/veorq/SipHash, vectors.h): bytes 0, 1, 2, … of the length given.
SIP_HASH_128 = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
    4: "f88164c12d9c8faf7d0f6e7c7bcd5579",
    5: "1368875980776f8854527a07690e9627",
    6: "14eeca338b208613485ea0308fd7a15e",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


@pytest.fixture(params=["compiled", "interpreted"])
def sieve(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("sieve", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


@for_each("length", SIP_HASH_128)
def test_the_hash_is_sip_hash_128(sieve: Any, length: int) -> None:
    assert sieve.sip_hash_128(SECRET, bytes(range(length))).hex() == SIP_HASH_128[length]


def test_both_forms_have_one_hash_for_keys_of_every_length(sieve: Any) -> None:
    dice = random.Random(4)
    for length in range(70):
        secret, key = dice.randbytes(16), dice.randbytes(length)
        assert sieve.sip_hash_128(secret, key) == INTERPRETED.sip_hash_128(secret, key)


def test_another_secret_is_another_hash(sieve: Any) -> None:
    assert sieve.sip_hash_128(bytes(16), b"key") != sieve.sip_hash_128(SECRET, b"key")
