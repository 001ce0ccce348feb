"""Bytes that are nearly valid."""

from __future__ import annotations

import random

EXTREMES = [
    bytes.fromhex(x) for x in ("00", "ff", "7f", "80", "00000000", "ffffffff", "7fffffff", "ffffffff07", "8000")
]
"""What lengths and counts are made of."""


def mutated(valid: bytes, dice: random.Random) -> bytes:
    """`valid` with some bytes changed, cut, doubled or replaced by what lengths and counts are made of."""
    data = bytearray(valid)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(5):
            case 0:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                extreme = dice.choice(EXTREMES)
                data[at : at + len(extreme)] = extreme
            case 2:
                del data[at:]
            case 3:
                data[at:at] = dice.choice(EXTREMES)
            case 4:
                data[at:at] = data[at : at + dice.randrange(50)]
    return bytes(data)
