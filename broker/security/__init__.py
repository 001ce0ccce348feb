"""Principals, ACLs and SASL.

Authentication: `sasl.py`, `sasl_exchange.py`, `sasl_scram.py`, then `broker/network/authentication_gate.py`.
Authorization: `needs` and `guard` of a handler, `permission_kinds.py`, `guarding.py`, `acls.py`, `authorizer.py`.
"""
