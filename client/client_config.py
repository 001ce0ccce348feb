"""The settings that a client needs to reach a broker, in the words of each client library."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from ..protocol.jaas import OAUTH, OAUTH_MODULE, OAUTHBEARER, PLAIN, PLAIN_MODULE, SCRAM_MODULE, quoted
from .sasl import Sasl, bearer_token

TOKEN_PROVIDERS = ("kafka.net.sasl.oauth", "kafka.sasl.oauth", "kafka.oauth")
"""Where releases of kafka-python have the base class of objects that give a client its token, the newest first."""


class Access(NamedTuple):
    """How a client reaches a broker: address, credentials and certificates."""

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    authority: str = ""
    """The file with the certificates to trust, as PEM; empty without TLS, and for those of the system."""
    certificate: str = ""
    """The file with the client's own key and certificate, as PEM; empty without one."""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token_endpoint: str = ""
    """The URL at which user and password get a token, for OAUTHBEARER; without it, tokens are unsecured ones."""
    scope: str = ""
    """What the token is to allow."""

    def __repr__(self) -> str:
        return f"Access({self.bootstrap_servers}, {self.protocol}, {self.user})"  # without the password

    def logging_in(self, sasl: Sasl) -> Access:
        """The same with these credentials."""
        return self._replace(
            mechanism=sasl.mechanism,
            user=sasl.username,
            password=sasl.password,
            token_endpoint=sasl.token_endpoint,
            scope=sasl.scope,
        )

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


def java(access: Access) -> dict[str, str]:
    """Properties of Java's clients, of Kafka's tools, and of `--command-config`."""
    settings = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.protocol}
    if access.has_tls and access.authority:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": access.authority}
    if access.certificate:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": access.certificate}
    if access.mechanism == OAUTHBEARER and not access.token_endpoint:
        options = f"unsecuredLoginStringClaim_sub={quoted(access.user)}"
        settings |= {"sasl.mechanism": access.mechanism, "sasl.jaas.config": f"{OAUTH_MODULE} required {options};"}
    elif access.mechanism == OAUTHBEARER:
        words = {"clientId": access.user, "clientSecret": access.password, "scope": access.scope}
        options = " ".join(f"{name}={quoted(text)}" for name, text in words.items() if text)
        settings |= {
            "sasl.mechanism": access.mechanism,
            "sasl.jaas.config": f"{OAUTH_MODULE} required {options};",
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": access.token_endpoint,
        }
    elif access.mechanism:
        module = PLAIN_MODULE if access.mechanism == PLAIN else SCRAM_MODULE
        options = f"username={quoted(access.user)} password={quoted(access.password)}"
        settings |= {"sasl.mechanism": access.mechanism, "sasl.jaas.config": f"{module} required {options};"}
    return settings


def spark(access: Access) -> dict[str, str]:
    """Options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": text for name, text in java(access).items()}


def librdkafka(access: Access) -> dict[str, str]:
    """Settings of librdkafka, and so of confluent-kafka, node-rdkafka, kcat and others."""
    settings = {"bootstrap.servers": access.bootstrap_servers, "security.protocol": access.protocol}
    if access.has_tls and access.authority:
        settings["ssl.ca.location"] = access.authority
    if access.certificate:
        settings |= {"ssl.certificate.location": access.certificate, "ssl.key.location": access.certificate}
    if access.mechanism == OAUTHBEARER and not access.token_endpoint:
        settings |= {
            "sasl.mechanism": access.mechanism,
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={access.user}",
        }
    elif access.mechanism == OAUTHBEARER:
        settings |= {
            "sasl.mechanism": access.mechanism,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": access.user,
            "sasl.oauthbearer.client.secret": access.password,
            "sasl.oauthbearer.token.endpoint.url": access.token_endpoint,
        }
        if access.scope:
            settings["sasl.oauthbearer.scope"] = access.scope
    elif access.mechanism:
        settings |= {
            "sasl.mechanism": access.mechanism,
            "sasl.username": access.user,
            "sasl.password": access.password,
        }
    return settings


def kafka_python(access: Access) -> dict[str, Any]:
    """Arguments of kafka-python's classes."""
    settings = _of_python(access)
    if access.has_tls and access.authority:
        settings["ssl_cafile"] = access.authority
    if access.certificate:
        settings |= {"ssl_certfile": access.certificate, "ssl_keyfile": access.certificate}
    if access.mechanism == OAUTHBEARER:
        base = _token_provider(*TOKEN_PROVIDERS)
        settings["sasl_oauth_token_provider"] = type("Tokens", (base,), {"token": lambda self: token_of(access)})()
    return settings


def aiokafka(access: Access) -> dict[str, Any]:
    """Arguments of aiokafka's classes, with an `ssl.SSLContext`."""
    settings = _of_python(access)
    if access.has_tls:
        import ssl

        context = ssl.create_default_context(cafile=access.authority or None)
        if access.certificate:
            context.load_cert_chain(access.certificate)
        settings["ssl_context"] = context
    if access.mechanism == OAUTHBEARER:

        async def token(self: object) -> str:
            return await asyncio.get_running_loop().run_in_executor(None, token_of, access)

        base = _token_provider("aiokafka.abc")
        settings["sasl_oauth_token_provider"] = type("Tokens", (base,), {"token": token})()
    return settings


def _token_provider(*modules: str) -> type:
    """The base class of objects that give a client its token, from the first of the modules that there is."""
    for module in modules:
        try:
            found: type = import_module(module).AbstractTokenProvider
        except (ImportError, AttributeError):
            continue
        return found
    raise ImportError(f"none of {', '.join(modules)} has AbstractTokenProvider")


def token_of(access: Access) -> str:
    """A token of the user. Raises OSError, ValueError."""
    return bearer_token(Sasl(access.mechanism, access.user, access.password, access.token_endpoint, access.scope))


def as_python(access: Access, library: str) -> str:
    """What `aiokafka` or `kafka_python` returns, as a program spells it: a dict named `config`."""
    is_oauth = access.mechanism == OAUTHBEARER
    bare = access._replace(mechanism="") if is_oauth else access
    settings = _of_python(bare) if library == "aiokafka" else kafka_python(bare)
    lines = [f"    {name!r}: {value!r}," for name, value in settings.items()]
    before: list[str] = []
    if library == "aiokafka" and access.has_tls:
        before = ["import ssl\n", f"context = ssl.create_default_context(cafile={access.authority or None!r})"]
        if access.certificate:
            before.append(f"context.load_cert_chain({access.certificate!r})")
        lines.append("    'ssl_context': context,")
    if is_oauth:
        sasl = (
            f"Sasl({OAUTHBEARER!r}, {access.user!r}, {access.password!r}, {access.token_endpoint!r}, {access.scope!r})"
        )
        base = "aiokafka.abc" if library == "aiokafka" else _token_provider(*TOKEN_PROVIDERS).__module__
        imports = [f"from {base} import AbstractTokenProvider", "from kmini.client.sasl import Sasl, bearer_token\n"]
        token = ["    def token(self):", f"        return bearer_token({sasl})\n"]
        if library == "aiokafka":
            imports.insert(0, "import asyncio")
            token = ["    async def token(self):", f"        return await asyncio.to_thread(bearer_token, {sasl})\n"]
        before = [*imports, *before, "class Tokens(AbstractTokenProvider):", *token]
        lines += [f"    'sasl_mechanism': {OAUTHBEARER!r},", "    'sasl_oauth_token_provider': Tokens(),"]
    return "\n".join([*before, "config = {", *lines, "}"]) + "\n"


def _of_python(access: Access) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": access.bootstrap_servers, "security_protocol": access.protocol}
    if access.mechanism == OAUTHBEARER:
        settings["sasl_mechanism"] = access.mechanism
    elif access.mechanism:
        settings |= {
            "sasl_mechanism": access.mechanism,
            "sasl_plain_username": access.user,
            "sasl_plain_password": access.password,
        }
    return settings


def kcat(access: Access) -> str:
    """Options of kcat, for a shell."""
    settings = librdkafka(access)
    words = ["-b", settings.pop("bootstrap.servers")]
    for name, text in settings.items():
        words += ["-X", f"{name}={text}"]
    return shlex.join(words)


def franz_go(access: Access) -> str:
    """Go: the options of `kgo.NewClient`."""
    seeds = ", ".join(map(_go, access.bootstrap_servers.split(",")))
    lines = [f"kgo.SeedBrokers({seeds}),"]
    if access.has_tls:
        lines.append("kgo.DialTLSConfig(tlsConfig),")
    if access.mechanism == OAUTHBEARER:
        lines.append("kgo.SASL(oauth.Oauth(func(context.Context) (oauth.Auth, error) {")
        lines.append("\ttoken, err := tokens.Token()")
        lines.append("\tif err != nil {\n\t\t\treturn oauth.Auth{}, err\n\t\t}")
        lines.append("\treturn oauth.Auth{Token: token.AccessToken}, nil\n\t})),")
    elif access.mechanism == PLAIN:
        lines.append(f"kgo.SASL(plain.Auth{{User: {_go(access.user)}, Pass: {_go(access.password)}}}.AsMechanism()),")
    elif access.mechanism:
        kind = f"AsSha{access.mechanism.removeprefix('SCRAM-SHA-')}Mechanism"
        lines.append(f"kgo.SASL(scram.Auth{{User: {_go(access.user)}, Pass: {_go(access.password)}}}.{kind}()),")
    options = "".join(f"\t{line}\n" for line in lines)
    return f"{_go_tls(access)}{_go_tokens(access)}options := []kgo.Opt{{\n{options}}}\n"


def sarama(access: Access) -> str:
    """Go: a `sarama.Config`. For SCRAM, `newScramClient` makes a `sarama.SCRAMClient` of package xdg-go/scram; for
    OAUTHBEARER, `newTokenProvider` makes a `sarama.AccessTokenProvider` of package oauth2's tokens."""
    lines = ["config := sarama.NewConfig()"]
    if access.has_tls:
        lines += ["config.Net.TLS.Enable = true", "config.Net.TLS.Config = tlsConfig"]
    if access.mechanism:
        lines += ["config.Net.SASL.Enable = true", f"config.Net.SASL.Mechanism = {_go(access.mechanism)}"]
    if access.mechanism == OAUTHBEARER:
        lines.append("config.Net.SASL.TokenProvider = newTokenProvider(tokens)")
    elif access.mechanism:
        lines += [
            f"config.Net.SASL.User = {_go(access.user)}",
            f"config.Net.SASL.Password = {_go(access.password)}",
        ]
    if access.mechanism.startswith("SCRAM"):
        lines.append("config.Net.SASL.SCRAMClientGeneratorFunc = newScramClient")
    seeds = ", ".join(map(_go, access.bootstrap_servers.split(",")))
    return _go_tls(access) + _go_tokens(access) + "\n".join(lines) + f"\naddresses := []string{{{seeds}}}\n"


def _go_tls(access: Access) -> str:
    if not access.has_tls:
        return ""
    lines = ["tlsConfig := &tls.Config{}"]
    if access.authority:
        lines += [
            f"authority, err := os.ReadFile({_go(access.authority)})",
            "if err != nil {\n\tpanic(err)\n}",
            "tlsConfig.RootCAs = x509.NewCertPool()",
            "tlsConfig.RootCAs.AppendCertsFromPEM(authority)",
        ]
    if access.certificate:
        path = _go(access.certificate)
        lines += [
            f"own, err := tls.LoadX509KeyPair({path}, {path})",
            "if err != nil {\n\tpanic(err)\n}",
            "tlsConfig.Certificates = []tls.Certificate{own}",
        ]
    return "\n".join(lines) + "\n"


def _go_tokens(access: Access) -> str:
    """With package golang.org/x/oauth2, and its clientcredentials where there is a token endpoint."""
    if access.mechanism != OAUTHBEARER:
        return ""
    if not access.token_endpoint:
        return _GO_UNSECURED_TOKENS.format(_go(access.user))
    lines = [
        "tokens := (&clientcredentials.Config{",
        f"\tClientID:     {_go(access.user)},",
        f"\tClientSecret: {_go(access.password)},",
        f"\tTokenURL:     {_go(access.token_endpoint)},",
        *([f"\tScopes:       []string{{{_go(access.scope)}}},"] if access.scope else []),
        "\tAuthStyle:    oauth2.AuthStyleInParams,",
        "}).TokenSource(context.Background())",
    ]
    return "\n".join(lines) + "\n"


_GO_UNSECURED_TOKENS = """\
now := time.Now().Unix()
claims, err := json.Marshal(map[string]any{{"sub": {}, "iat": now, "exp": now + 86_400}})
if err != nil {{
	panic(err)
}}
base64url := base64.RawURLEncoding.EncodeToString
token := base64url([]byte(`{{"alg":"none"}}`)) + "." + base64url(claims) + "."
tokens := oauth2.StaticTokenSource(&oauth2.Token{{AccessToken: token}})
"""
"""An unsecured token (KIP-255), which is good for a day."""


def _go(text: str) -> str:
    """A Go string; those of JSON are such."""
    return json.dumps(text, ensure_ascii=False)


SETTINGS: dict[str, Callable[[Access], dict[str, Any]]] = {
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
    "confluent-kafka": librdkafka,
    "librdkafka": librdkafka,
    "java": java,
    "spark": spark,
}
"""The makers of settings, by client."""

TEXTS: dict[str, Callable[[Access], str]] = {"kcat": kcat, "franz-go": franz_go, "sarama": sarama}
"""Those of clients whose settings are text."""
