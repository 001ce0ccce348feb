"""Waves of connections that send valid, mutated and random requests, and the count of those that got their answer."""

from __future__ import annotations

import random
import struct

from kmini.protocol.messages import REQUESTS
from kmini.protocol.schema import Request
from support.fuzz.mutations import Names, every_version, mutated, random_message, request_frame
from support.fuzz.swarm import LAST, LAST_REQUEST, Stranger, until_done
from support.fuzz.watched_broker import WatchedBroker

AT_ONCE = 40
REQUESTS_EACH = 10
HEADER_BYTES = 12
"""Size, API key, version and correlation id: if these change, answers cannot be matched with requests."""
FOREVER_MS = 1 << 32
"""Longer than any request can ask to be kept waiting."""


class Attack:
    """An endless supply of streams, from one seed."""

    def __init__(self, names: Names, seed: str) -> None:
        self.dice = random.Random(seed)
        self._valid: list[tuple[type[Request], int, bytearray]] = []
        for cls, version in every_version(iter(REQUESTS.values())):
            assert issubclass(cls, Request)
            for _ in range(8):
                frame = request_frame(random_message(cls, version, self.dice, names), version, 0)
                self._valid.append((cls, version, frame))

    def orderly_stream(self) -> tuple[bytes, list[int]]:
        """Requests that are whole, some valid and some changed behind the header, and their correlation ids."""
        stream = bytearray()
        ids = []
        for _ in range(REQUESTS_EACH):
            _, _, valid = self.dice.choice(self._valid)
            frame = mutated(valid, self.dice, keep=HEADER_BYTES) if self.dice.random() < 0.3 else bytearray(valid)
            ids.append(self.dice.randrange(1 << 30))
            struct.pack_into(">i", frame, 0, len(frame) - 4)
            struct.pack_into(">i", frame, 8, ids[-1])
            stream += frame
        return bytes(stream + LAST_REQUEST), [*ids, LAST]

    def disorderly_stream(self) -> bytes:
        """Garbage, half frames, frames with any size and any header."""
        stream = bytearray()
        for _ in range(REQUESTS_EACH):
            _, _, valid = self.dice.choice(self._valid)
            match self.dice.randrange(5):
                case 0:
                    stream += self.dice.randbytes(self.dice.randrange(1, 200))
                case 1:
                    stream += valid[: self.dice.randrange(len(valid))]
                case 2:
                    frame = bytearray(valid)
                    struct.pack_into(">hh", frame, 4, self.dice.randrange(-2, 100), self.dice.randrange(-2, 30))
                    stream += frame
                case _:
                    stream += mutated(valid, self.dice)
        return bytes(stream)


def one_wave(broker: WatchedBroker, attack: Attack) -> int:
    """Many connections at once. Returns how many requests were answered, in order, or had their connection closed."""
    dice = attack.dice
    strangers = []
    expected: list[list[int]] = []
    for _ in range(AT_ONCE):
        if dice.random() < 0.75:
            stream, ids = attack.orderly_stream()
            expected.append(ids)
            strangers.append(Stranger(broker.address, stream, leaves=dice.random() < 0.2))
        else:
            expected.append([])
            strangers.append(Stranger(broker.address, attack.disorderly_stream(), leaves=True))
    assert until_done(strangers, on_silence=lambda: broker.let_time_pass(FOREVER_MS)) == 0
    for stranger, ids in zip(strangers, expected, strict=True):
        due = iter(ids)
        assert not ids or all(answered in due for answered in stranger.answered)
    return sum(len(stranger.answered) + (LAST not in stranger.answered) for stranger in strangers)
