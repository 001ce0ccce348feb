"""Principals, TLS, SASL and ACLs.

Settings: `security_settings.py`, resolved for each listener; `inter_broker.py`: how brokers reach each other.
TLS: `tls.py`, with the principal that a certificate names.
Authentication: `sasl.py`, the session of a connection and its end; `sasl_exchange.py`, one exchange by a mechanism:
`sasl_plain.py`, `sasl_scram.py` with `scram_credentials.py`, `sasl_oauthbearer.py` with `bearer_tokens.py`; then
`broker/network/authentication_gate.py`.
Authorization: `needs` and `guard` of a handler, `permission_kinds.py`, `guarding.py`, `fetch_access.py`, `acls.py`,
`authorizer.py`.
"""
