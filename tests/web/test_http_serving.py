"""Connections of the HTTP server, driven without sockets. `control/test_bad_input.py` and `test_control_server.py` send
requests to it over sockets."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus

import pytest

from kmini.web.http_serving import HttpServer, Request, Response, Router, _Connection


class OneAnswer(asyncio.Transport):
    """The transport of a client that closes its connection some turns of the loop after the answer."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self.turns = turns
        self.protocol: _Connection

    def write(self, data: object) -> None:
        self._lose(self.turns)
        self.turns = -1

    def _lose(self, turns: int) -> None:
        if turns > 0:
            asyncio.get_running_loop().call_soon(self._lose, turns - 1)
        elif turns == 0:
            self.protocol.connection_lost(None)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


async def serve(request: Request) -> Response:
    return Response(HTTPStatus.OK, {}, b"answer")


@pytest.mark.parametrize("turns", range(8))
async def test_a_client_that_closes_after_its_answer_leaves_no_task(turns: int) -> None:
    server = HttpServer(Router(), serve, lambda status, why: Response(status), logging.getLogger("test"), 1024)
    transport = OneAnswer(turns)
    connection = transport.protocol = _Connection(server)
    connection.connection_made(transport)
    connection.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await asyncio.wait([connection.task], timeout=30)
    assert connection.task.done()
    assert not server.connections
