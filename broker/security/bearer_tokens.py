"""The tokens of OAUTHBEARER: unsecured ones, which Kafka takes by default for development (KIP-255), and signed ones,
checked by the keys of an issuer (KIP-768).

What a token says is never logged; why it was refused is.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

log = logging.getLogger("kmini.authentication")

ALGORITHMS = ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"]
"""Of signatures that only the issuer can make: neither "none" nor HS256."""
MOST_TOKEN_BYTES = 65_536
MOST_KEYS_BYTES = 1 << 20
FETCH_TIMEOUT_S = 10.0
LEAST_BETWEEN_FETCHES_S = 10.0
"""Between two fetches for the sake of a key that is not known."""


EXPIRED = "it has expired"
"""Why a token is refused whose time is over."""


class Token(NamedTuple):
    """What a valid token says."""

    principal: str
    expires_s: float
    """In seconds since the epoch, by the clock of this machine."""


class TokenRefused(Exception):
    """A token is not valid. The text says why, without the token."""

    def __init__(self, reason: str, *, scope: str = "") -> None:
        super().__init__(reason)
        self.status = "insufficient_scope" if scope else "invalid_token"
        self.scope = scope


class Claims(NamedTuple):
    """What is expected of the claims of a token."""

    subject: str = "sub"
    """The claim that names the user."""
    scope: str = "scope"
    required_scope: Collection[str] = ()
    audiences: Collection[str] = ()
    """One of these has to be in `aud`, if there are any."""
    issuer: str = ""
    """`iss`, unless it is empty."""
    skew_s: float = 0.0
    """By which the issuer's clock may differ."""
    of_signed: bool = False
    """Whether the rules are those of Kafka's validator of signed tokens, not those of its unsecured ones."""

    def check(self, claims: dict[str, Any]) -> Token:
        """Check the claims. Raises TokenRefused."""
        now_s = time.time()
        expires_s, issued_s = _number(claims, "exp"), _number(claims, "iat")
        if expires_s is None:
            raise TokenRefused("no expiration time (exp)")
        if now_s - self.skew_s >= expires_s:
            raise TokenRefused(EXPIRED)
        if self.of_signed:
            self._check_begin(claims, issued_s, expires_s, now_s)
        elif issued_s is not None and issued_s > now_s + self.skew_s:
            raise TokenRefused("its time of issue (iat) lies in the future")
        elif issued_s is not None and expires_s <= issued_s:
            raise TokenRefused("it expires before it was issued")
        if self.issuer and claims.get("iss") != self.issuer:
            raise TokenRefused("another issuer (iss) than sasl.oauthbearer.expected.issuer")
        if self.audiences and not _texts(claims, "aud") & {*self.audiences}:
            raise TokenRefused("another audience (aud) than sasl.oauthbearer.expected.audience")
        scope = _distinct(claims, self.scope) if self.of_signed else _texts(claims, self.scope)
        if missing := [each for each in self.required_scope if each not in scope]:
            raise TokenRefused(f"it lacks the scope {missing[0]}", scope=f"[{', '.join(self.required_scope)}]")
        principal = claims.get(self.subject)
        if not isinstance(principal, str) or not principal.strip():
            raise TokenRefused(f"no user: the claim {self.subject} is no text")
        return Token(principal, expires_s)

    def _check_begin(self, claims: dict[str, Any], issued_s: float | None, expires_s: float, now_s: float) -> None:
        """A signed token has a time of issue, which may lie in the future, and perhaps a time before which it is not
        valid."""
        valid_from_s = _number(claims, "nbf")
        if issued_s is None:
            raise TokenRefused("no time of issue (iat)")
        if expires_s < max(issued_s, valid_from_s or 0):
            raise TokenRefused("it expires before it was issued or valid")
        if valid_from_s is not None and now_s + self.skew_s < valid_from_s:
            raise TokenRefused("it is not valid yet (nbf)")


def _number(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TokenRefused(f"the claim {name} is no number")
    return float(value)


def _texts(claims: dict[str, Any], name: str) -> set[str]:
    """The texts of a claim that is a list, or one text: as in Kafka it is not split at spaces."""
    value = claims.get(name, [])
    texts = [value.strip()] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TokenRefused(f"the claim {name} is neither text nor a list of texts")
    return set(texts)


def _distinct(claims: dict[str, Any], name: str) -> set[str]:
    """The texts of a claim, none of which is empty or there twice; none for what is neither text nor list."""
    value = claims.get(name)
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    trimmed = [text.strip() for text in texts if isinstance(text, str)]
    if len(trimmed) < len(texts) or not all(trimmed) or len({*trimmed}) < len(trimmed):
        raise TokenRefused(f"the claim {name} has what is no text, an empty one, or the same one twice")
    return {*trimmed}


class UnsecuredTokens:
    """Takes tokens without a signature: their algorithm is "none"."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def preparation(self, token: str) -> None:
        """Nothing has to be fetched."""

    def validate(self, token: str) -> Token:
        """Raises TokenRefused."""
        parts = token.split(".")
        if len(parts) != 3 or len(token) > MOST_TOKEN_BYTES:
            raise TokenRefused("it is no JSON Web Signature of three parts")
        if _decoded(parts[0]).get("alg") != "none":
            raise TokenRefused('it is signed, and this listener takes unsecured tokens: their alg is "none"')
        if parts[2]:
            raise TokenRefused("an unsecured token has no signature")
        return self._claims.check(_decoded(parts[1]))


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefused("a part of it is no JSON object in base64")
    return found


class SignedTokens:
    """Takes tokens that an issuer has signed. Its keys are read from a file or fetched from a URL, when the first token
    comes, when they are old, and for a key that is not known."""

    def __init__(self, claims: Claims, url: str, refresh_s: float) -> None:
        """Raises ValueError for a file that cannot be used, and for another URL than one of file, http and https."""
        try:
            from joserfc import jwk  # noqa: F401
        except ImportError:
            raise ValueError(
                "signed tokens need the package joserfc, as pip install '.[oauth]' in a clone brings it"
            ) from None
        if not url.startswith(("file://", "http://", "https://")):
            raise ValueError(f"{url} is neither a file:// nor an http:// nor an https:// URL")
        self._claims = claims
        self._url = url
        self._refresh_s = refresh_s
        self._keys: KeySet | None = None
        self._ids: frozenset[str] = frozenset()
        self._tried_s = -LEAST_BETWEEN_FETCHES_S
        self._fetching: asyncio.Task[None] | None = None
        if url.startswith("file://"):
            self._use(_read(url))

    def preparation(self, token: str) -> asyncio.Task[None] | None:
        """Awaited before a token is validated: the keys are being fetched."""
        age_s = time.monotonic() - self._tried_s
        is_known = self._keys is not None and self._key_id(token) in self._ids
        if age_s < (self._refresh_s if is_known else LEAST_BETWEEN_FETCHES_S):
            return self._fetching
        if self._fetching is None:
            self._tried_s = time.monotonic()
            self._fetching = asyncio.get_running_loop().create_task(self._fetch())
        return self._fetching

    def _key_id(self, token: str) -> str:
        try:
            return str(_decoded(token.split(".")[0]).get("kid", ""))
        except TokenRefused:
            return ""

    async def _fetch(self) -> None:
        try:
            self._use(await asyncio.get_running_loop().run_in_executor(None, _read, self._url))
        except ValueError as error:
            log.warning("the keys of tokens stay as they are: %s", error)
        finally:
            self._fetching = None

    def _use(self, data: bytes) -> None:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            described = json.loads(data)
            keys = [key for key in described["keys"] if key.get("kty") != "oct"]
            self._keys = KeySet.import_key_set({"keys": keys})
        except (ValueError, KeyError, TypeError, AttributeError, JoseError):
            raise ValueError(f"{self._url}: a JSON Web Key Set was expected") from None
        self._ids = frozenset(str(key.get("kid", "")) for key in keys)

    def validate(self, token: str) -> Token:
        """Raises TokenRefused."""
        from joserfc import jws
        from joserfc.errors import JoseError

        if len(token) > MOST_TOKEN_BYTES:
            raise TokenRefused("it is too long")
        if self._keys is None:
            raise TokenRefused("the keys of its issuer could not be had")
        if self._key_id(token) not in self._ids:
            raise TokenRefused("its key (kid) is none of the issuer's")
        try:
            verified = jws.deserialize_compact(token.encode("ascii"), self._keys, algorithms=ALGORITHMS)
            claims = json.loads(verified.payload)
        except (JoseError, ValueError) as error:
            raise TokenRefused(f"its signature does not hold: {type(error).__name__}") from None
        if not isinstance(claims, dict):
            raise TokenRefused("its claims are no JSON object")
        return self._claims.check(claims)


Tokens = UnsecuredTokens | SignedTokens


def _read(url: str) -> bytes:
    """What is there. Redirects are not followed. Raises ValueError."""
    import urllib.error
    import urllib.parse
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any) -> None:
            """None has urllib report the redirect as an error."""

    host = urllib.parse.urlsplit(url).hostname or ""
    handlers: list[urllib.request.BaseHandler] = [NoRedirect()]
    if host in ("localhost", "127.0.0.1", "::1"):
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=FETCH_TIMEOUT_S) as answer:
            data: bytes = answer.read(MOST_KEYS_BYTES + 1)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ValueError(f"{url}: {getattr(error, 'reason', None) or error}") from None
    if len(data) > MOST_KEYS_BYTES:
        raise ValueError(f"{url}: it has more than {MOST_KEYS_BYTES} bytes")
    return data
