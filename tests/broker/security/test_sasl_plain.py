"""PLAIN: name and password in clear text."""

from __future__ import annotations

import hmac

import pytest

from kmini.broker.security import sasl_exchange as exchange
from kmini.broker.security.sasl_exchange import AuthenticationFailed, is_same_secret
from kmini.broker.security.sasl_plain import PlainExchange

USERS = {"alice": "wonderland", "bob": "builder"}


def plain(token: str | bytes) -> str | None:
    one = PlainExchange(USERS)
    one.evaluate(token.encode() if isinstance(token, str) else token)
    return one.username


@pytest.mark.parametrize("authorization_id", ["", "alice"])
def test_plain_takes_name_and_password(authorization_id: str) -> None:
    assert plain(f"{authorization_id}\0alice\0wonderland") == "alice"


@pytest.mark.parametrize(
    "token",
    [
        "", "alice", "\0alice", "\0\0wonderland", "\0alice\0", "\0alice\0wrong", "\0alice\0wonderlandx",
        "\0eve\0wonderland",
        "\0alice\0builder", "\0alice\0wonderland\0", b"\0\xff\0x", "\0ALICE\0wonderland",
    ],
)  # fmt: skip
def test_plain_refuses_other_messages(token: str | bytes) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        plain(token)
    assert "wonderland" not in str(refused.value) + refused.value.reason


def test_plain_refuses_to_act_for_another_user() -> None:
    """CVE-2017-12610: the authorization id was taken for the user, though another one had shown a password."""
    with pytest.raises(AuthenticationFailed, match="authorization id"):
        plain("bob\0alice\0wonderland")


def test_plain_answers_an_unknown_user_like_a_wrong_password() -> None:
    said = set()
    for token in ("\0alice\0wrong", "\0eve\0wrong"):
        with pytest.raises(AuthenticationFailed) as refused:
            plain(token)
        said.add(str(refused.value))
    assert len(said) == 1


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153: a comparison that stops at the first difference tells where it is. What is compared here are
    digests under a random key, by the function that is made for it, for unknown users too."""
    compared: list[tuple[bytes, bytes]] = []
    in_constant_time = hmac.compare_digest

    def record(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return in_constant_time(one, other)

    monkeypatch.setattr(exchange.hmac, "compare_digest", record)
    assert is_same_secret(b"a" * 1000, b"a" * 1000)
    assert not is_same_secret(b"a", b"b")
    for token in ("\0alice\0wrong", "\0eve\0wrong", "\0alice\0wonderland"):
        before = len(compared)
        try:
            plain(token)
        except AuthenticationFailed:
            pass
        assert len(compared) == before + 1
    assert {len(part) for pair in compared for part in pair} == {32}
    assert b"wonderland" not in b"".join(part for pair in compared for part in pair)
