"""One conversation about delegation tokens with a broker that has SASL and an authorizer, told so that two brokers can
be compared: tokens by their numbers, times from now on and in hours."""

from __future__ import annotations

import hashlib
import hmac
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from kmini.broker.security.resources import AclOperation, ResourceType
from kmini.protocol import messages as m
from kmini.protocol import scram
from kmini.protocol.errors import (
    DelegationTokenAuthorizationFailed,
    DelegationTokenExpired,
    SaslAuthenticationFailed,
)
from kmini.testing import ConnectionClosed, Wire
from support.broker.access_rules import acl
from support.broker.scram_logins import TOKEN, prove
from support.broker.token_requests import DAY, HOUR, SECRET, creation, description
from support.until import until

LogIn = Callable[[str], Wire]
"""Returns the connection of a user."""


def in_hours(time_ms: int) -> object:
    """A time from now on; a number that is no time stays as it is."""
    return time_ms if time_ms <= 0 else f"{round((time_ms - time.time() * 1000) / HOUR)} hours"


class TokenTalk:
    """What one broker answers."""

    def __init__(self, address: str, log_in: LogIn) -> None:
        self.said: dict[str, object] = {}
        self._address = address
        self._log_in = log_in
        self._names: dict[str, str] = {}
        self.code_of_expired = -1
        """The error code of a login with a token that has expired and is not removed."""

    # --- requests

    def create(self, what: str, user: str, *renewers: str, version: int | None = None, **fields: Any) -> Any:
        with self._log_in(user) as wire:
            answer = wire.ask(creation(*renewers, **fields), version)
        self.said[what] = self._told_of(answer)
        return answer

    def renew(self, what: str, user: str, shown: bytes, period_ms: int = -1) -> int:
        with self._log_in(user) as wire:
            answer = wire.ask(m.RenewDelegationTokenRequest(hmac=shown, renew_period_ms=period_ms))
        self.said[what] = (answer.error_code, in_hours(answer.expiry_timestamp_ms))
        return int(answer.error_code)

    def expire(self, what: str, user: str, shown: bytes, period_ms: int = -1) -> int:
        with self._log_in(user) as wire:
            answer = wire.ask(m.ExpireDelegationTokenRequest(hmac=shown, expiry_time_period_ms=period_ms))
        self.said[what] = (answer.error_code, in_hours(answer.expiry_timestamp_ms))
        return int(answer.expiry_timestamp_ms)

    def wait_for(self, shown: bytes, expiry_ms: int | None) -> None:
        """Wait until the broker has heard from its controller when the token expires, or, None, that it is gone:
        Apache Kafka finds tokens as it has heard of them."""

        def heard() -> bool:
            with self._log_in("admin") as wire:
                tokens = wire.ask(description(of_all=True)).tokens
            return next((one.expiry_timestamp for one in tokens if one.hmac == shown), None) == expiry_ms

        until(heard)

    def describe(self, what: str, user: str, *owners: str, of_all: bool = False, tokens: int) -> None:
        """Wait until the broker has heard of so many `tokens` from its controller."""

        def asked() -> bool:
            with self._log_in(user) as wire:
                answer = wire.ask(description(*owners, of_all=of_all))
            self.said[what] = (answer.error_code, sorted(str(self._told_of(each)) for each in answer.tokens))
            return len(answer.tokens) == tokens

        until(asked, lambda: f"{what}: {self.said[what]}")

    def _told_of(self, answer: Any) -> dict[str, object]:
        told = {field.name: getattr(answer, field.name) for field in type(answer).__fields__}
        token_id, shown = told.pop("token_id"), told.pop("hmac")
        told["hmac"] = shown == b"" or shown == hmac.digest(SECRET.encode(), token_id.encode(), hashlib.sha512)
        told["token"] = self._names.setdefault(token_id, f"token {len(self._names)}") if token_id else ""
        told["renewers"] = [str(each) for each in told.get("renewers", [])]
        return {name: in_hours(value) if "timestamp" in name else value for name, value in told.items()}

    # --- logins

    def token_login(
        self,
        name: str,
        password: bytes,
        mechanism: scram.Mechanism = scram.SHA_256,
        extensions: str = TOKEN,
        header: str = "n,,",
        then: Callable[[Wire], object] = lambda wire: None,
    ) -> tuple[int, str, str, object]:
        """Code, words and lifetime of the last answer to a login; and what `then` returns, if it succeeds."""
        with Wire(self._address, timeout_s=8) as wire:
            assert wire.ask(m.SaslHandshakeRequest(mechanism=mechanism.name)).error_code == 0
            answers: list[Any] = []

            def send(message: bytes) -> bytes:
                answers.append(wire.ask(m.SaslAuthenticateRequest(auth_bytes=message)))
                return bytes(answers[-1].auth_bytes)

            try:
                prove(send, mechanism, name, b64encode(password).decode(), extensions, header)
            except scram.ScramError:
                assert answers[-1].error_code, "an answer that is no message of SCRAM, without an error"
            last = answers[-1]
            hours = round(last.session_lifetime_ms / HOUR)
            done = None if last.error_code else then(wire)
            return last.error_code, last.error_message, f"{hours} hours", done

    # --- the conversation

    def about_requests(self) -> None:
        """Every request, with each of its errors."""
        for version in (1, 2, 3):
            self.create(f"create, v{version}", "alice", version=version)
        own = self.create("create with renewers", "alice", "carol", "dave")
        self.create("create with a group as renewer", "alice", "readers", renewer_type="Group")
        self.create("create for oneself by name", "alice", owner="alice")
        for lifetime_ms in (0, HOUR, 3 * DAY, 30 * DAY, 2**63 - 1):
            self.create(f"create for {lifetime_ms} ms", "alice", lifetime_ms=lifetime_ms)
        self.create("create for another without the right", "alice", owner="erin")
        self.create("create for another, with a group", "alice", "g", owner="erin", renewer_type="Group")
        self._allow("User:alice", AclOperation.CREATE_TOKENS, ResourceType.USER, "User:erin")

        def may_create() -> Any:
            answer = self.create("create for another", "alice", "dave", owner="erin")
            return None if answer.error_code == DelegationTokenAuthorizationFailed.code else answer

        of_erin = until(may_create)
        self.create("create for a third", "alice", owner="carol")
        self.wait_for(of_erin.hmac, of_erin.expiry_timestamp_ms)

        self.renew("renew by the owner", "alice", own.hmac)
        self.renew("renew by a renewer", "carol", own.hmac, 2 * HOUR)
        self.renew("renew by another", "bob", own.hmac)
        self.renew("renew by the requester", "alice", of_erin.hmac)
        self.renew("renew for too long", "alice", own.hmac, 30 * DAY)
        self.renew("renew for no time", "alice", own.hmac, 0)
        self.renew("renew an unknown token", "alice", b"token")
        self.expire("expire later, by a renewer", "dave", own.hmac, 3 * HOUR)
        latest_ms = self.expire("expire after the greatest age", "alice", own.hmac, 2**62)
        self.expire("expire by another", "bob", own.hmac)
        self.expire("expire by the requester", "alice", of_erin.hmac)
        self.expire("expire an unknown token", "alice", b"")

        self.wait_for(own.hmac, latest_ms)
        self.describe("describe one's own", "alice", of_all=True, tokens=11)
        self.describe("describe as a renewer", "carol", of_all=True, tokens=1)
        self.describe("describe without a right", "without-0", of_all=True, tokens=0)
        self.describe("describe as a super user", "admin", "alice", "erin", tokens=11)
        self.describe("describe those of an owner", "admin", "erin", tokens=1)
        self.describe("describe those of some", "admin", "erin", "carol", "eve", tokens=2)
        self.describe("describe those of none", "admin", tokens=0)
        self.describe("describe those of another", "alice", "dave", tokens=2)
        self._allow("User:with-0", AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, own.token_id)
        self.describe("describe with a right on the token", "with-0", of_all=True, tokens=1)
        self._allow("User:with-0", AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:erin")
        self.describe("describe with a right on the owner", "with-0", of_all=True, tokens=2)

        old = self.create("create for a moment", "alice", lifetime_ms=1)
        self.wait_for(old.hmac, old.expiry_timestamp_ms)
        until(lambda: self.renew("renew an expired token", "alice", old.hmac) == DelegationTokenExpired.code)
        self.renew("renew an expired token as another", "bob", old.hmac)
        self.expire("expire an expired token as another", "bob", old.hmac, HOUR)
        self.expire("expire an expired token later", "alice", old.hmac, HOUR)
        self.expire("remove an expired token", "alice", old.hmac)
        self.wait_for(old.hmac, None)
        self.expire("expire at once", "alice", own.hmac)
        self.wait_for(own.hmac, None)
        self.expire("expire again", "alice", own.hmac)
        self.renew("renew what is removed", "alice", own.hmac)
        self.describe("describe what is left", "admin", "alice", "erin", tokens=10)

    def about_logins(self) -> None:
        """Logins, good and bad, and what a client may do that a token has authenticated."""
        token = self.create("a token to log in with", "alice", lifetime_ms=2 * HOUR)
        gone = self.create("a token to remove", "alice")

        def works() -> bool:
            return all(self.token_login(one.token_id, one.hmac)[0] == 0 for one in (token, gone))

        until(works)
        old = self.create("a token that expires", "alice", lifetime_ms=1)
        self.wait_for(old.hmac, old.expiry_timestamp_ms)
        until(lambda: self.renew("renew it", "alice", old.hmac) == DelegationTokenExpired.code)
        self.code_of_expired = self.token_login(old.token_id, old.hmac)[0]
        for mechanism in scram.MECHANISMS.values():
            self.said[mechanism.name] = self.token_login(token.token_id, token.hmac, mechanism, then=self._about_token)
        with self._log_in("alice") as wire:
            request = m.ExpireDelegationTokenRequest(hmac=gone.hmac, expiry_time_period_ms=-1)
            assert wire.ask(request).error_code == 0
        refused = SaslAuthenticationFailed.code
        until(lambda: self.token_login(gone.token_id, gone.hmac)[0] == refused)
        token_id = token.token_id
        for what, name, password, extensions, header in (
            ("a removed token", gone.token_id, gone.hmac, TOKEN, "n,,"),
            ("another password", token_id, gone.hmac, TOKEN, "n,,"),
            ("an unknown token", "no-such-token", token.hmac, TOKEN, "n,,"),
            ("a user as token", "alice", token.hmac, TOKEN, "n,,"),
            ("without the extension", token_id, token.hmac, "", "n,,"),
            ("the extension is false", token_id, token.hmac, ",tokenauth=false", "n,,"),
            ("the extension is TRUE", token_id, token.hmac, ",tokenauth=TRUE", "n,,"),
            ("the token as authorization id", token_id, token.hmac, TOKEN, f"n,a={token_id},"),
            ("the owner as authorization id", token_id, token.hmac, TOKEN, "n,a=alice,"),
        ):
            self.said[what] = self.token_login(name, password, extensions=extensions, header=header)

    def _about_token(self, wire: Wire) -> object:
        made = wire.ask(creation())
        times = (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms)
        said: list[object] = [made.error_code, made.principal_name, made.hmac, times]
        for request in (
            creation(owner="erin"),
            m.RenewDelegationTokenRequest(hmac=b"token", renew_period_ms=-1),
            m.ExpireDelegationTokenRequest(hmac=b"token", expiry_time_period_ms=-1),
            description(of_all=True),
            m.DescribeGroupsRequest(groups=["readers"]),
        ):
            try:
                answer = wire.ask(request)
            except ConnectionClosed:
                said.append("closed")
                continue
            groups = getattr(answer, "groups", None)
            said.append(groups[0].error_code if groups else answer.error_code)
        return said

    def _allow(self, principal: str, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        fields = ("resource_type", "resource_pattern_type", "resource_name", "principal", "host", "operation")
        rule = acl(operation, resource_type, name, principal=principal)
        made = m.CreateAclsRequest.Creation(**dict(zip((*fields, "permission_type"), rule, strict=True)))
        with self._log_in("admin") as wire:
            (result,) = wire.ask(m.CreateAclsRequest(creations=[made])).results
            assert result.error_code == 0
