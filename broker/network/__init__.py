"""Sockets, connections, the authentication gate, and dispatch: bytes → the handler of a request, and back.

Reading order: `socket_server.py`, `connection.py`, `authentication_gate.py`, `dispatch.py`; `listeners.py` (settings
of listeners), `handshakes.py` (TLS), `advertised_addresses.py` and `port_mapping.py` (where clients are told to
connect), `event_loop.py`, `memory_transport.py` (connections inside the process), `reserved_ports.py` (of stopped
brokers). Log lines: `peer_log.py`, `request_log.py`, `client_hints.py`.
"""
