"""Key stores, and principals of certificates, by Kafka's settings; what cannot work is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.broker.security.security_settings import tls_settings
from kmini.broker.security.tls import MappingRules, distinguished_name
from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
from support.certificates import Authority, Signed
from support.for_each import for_each

AUTHORITY = Authority()
BROKER = AUTHORITY.sign("broker")
PASSWORD = "secret-word"

INLINE = {
    "listeners": "SSL://127.0.0.1:0",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": BROKER.key_pem,
    "ssl.keystore.certificate.chain": BROKER.certificate_pem,
}


def keys_of(settings: dict[str, str]) -> object:
    """What a listener serves by, loaded."""
    return tls_settings(BrokerConfig.parse(settings), "SSL")


def stores(folder: Path) -> dict[str, Path]:
    """Files with key stores, by what is in them."""
    contents: dict[str, bytes] = {
        "pem": BROKER.pem.encode(),
        "encrypted": (BROKER.encrypted_key_pem(PASSWORD) + BROKER.certificate_pem).encode(),
        "p12": BROKER.pkcs12(PASSWORD),
        "jks": bytes.fromhex("feedfeed00000002"),
        "garbage": b"no key at all",
        "certificate": BROKER.certificate_pem.encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: folder / name for name in contents}


def test_keys_are_taken_from_settings_and_from_files(tmp_path: Path) -> None:
    files = stores(tmp_path)
    base = {"listeners": "SSL://127.0.0.1:0"}
    for settings in (
        INLINE,
        INLINE | {"ssl.keystore.key": BROKER.encrypted_key_pem(PASSWORD), "ssl.key.password": PASSWORD},
        base | {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files["pem"])},
        base
        | {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files["encrypted"]), "ssl.key.password": PASSWORD},
        base
        | {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(files["p12"]),
            "ssl.keystore.password": PASSWORD,
        },
        base | {"ssl.keystore.location": str(files["p12"]), "ssl.keystore.password": PASSWORD},
        {f"listener.name.ssl.{name}" if name.startswith("ssl.") else name: text for name, text in INLINE.items()},
        INLINE
        | {"ssl.client.auth": "required", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem},
        INLINE | {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"},
    ):
        assert keys_of(settings) is not None, settings


def other(**changed: str) -> Callable[[dict[str, Path]], dict[str, str]]:
    """Inline keys with other settings, underscores for dots."""
    return lambda files: INLINE | {f"ssl.{name.replace('_', '.')}": text for name, text in changed.items()}


def from_file(name: str, **changed: str) -> Callable[[dict[str, Path]], dict[str, str]]:
    """The keys in a file, with other settings."""
    return lambda files: {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(files[name]) if name in files else name,
        **{f"ssl.{key.replace('_', '.')}": text for key, text in changed.items()},
    }


REFUSED: list[tuple[Callable[[dict[str, Path]], dict[str, str]], str]] = [
    (lambda files: {"listeners": "SSL://127.0.0.1:0"}, "ssl.keystore.location: a listener with TLS needs a key store"),
    (from_file("/no/such/file"), "ssl.keystore.location=/no/such/file: No such file"),
    (from_file("jks"), "keytool -importkeystore -srckeystore .*jks -destkeystore .*p12"),
    (from_file("pem"), "if it is PEM, ssl.keystore.type=PEM says so"),
    (from_file("garbage", keystore_type="PEM"), "lacks a certificate or a private key"),
    (from_file("certificate", keystore_type="PEM"), "lacks a certificate or a private key"),
    (from_file("p12", keystore_password="wrong"), "its password is another one, or it is damaged"),
    (from_file("encrypted", keystore_type="PEM", key_password="wrong"), "the password of the private key is another"),
    (from_file("encrypted", keystore_type="PEM"), "ssl.key.password is not set"),
    (from_file("pem", keystore_type="BCFKS"), "must be PEM, PKCS12 or JKS"),
    (other(keystore_certificate_chain=AUTHORITY.sign("x").certificate_pem), "do not belong together"),
    (other(client_auth="maybe"), "ssl.client.auth=maybe"),
    (other(enabled_protocols="SSLv3"), "must name TLSv1.2 or TLSv1.3"),
    (other(cipher_suites="TLS_AES_128_GCM_SHA256"), "TLS_AES_128_GCM_SHA256 is no suite of TLS 1.2"),
    (other(cipher_suites="TLS_NO_WITH_SUCH_THING"), "OpenSSL has none of these suites"),
    (other(principal_mapping_rules="RULE:a(/b/"), r"a\( is no regular expression"),
    (other(principal_mapping_rules="MAYBE"), "MAYBE is neither DEFAULT nor RULE"),
    (other(client_auth="required", truststore_certificates="garbage"), "no certificates that can be read"),
    (other(client_auth="required", truststore_location="/no/such"), "ssl.truststore.location=/no/such: No such file"),
]


@for_each("settings, told", REFUSED)
def test_what_cannot_work_is_refused_in_a_sentence_without_secrets(
    tmp_path: Path, settings: Callable[[dict[str, Path]], dict[str, str]], told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as refused:
        keys_of(settings(stores(tmp_path)))
    assert PASSWORD not in str(refused.value)
    assert "PRIVATE KEY" not in str(refused.value)


def subject(*parts: tuple[str, str]) -> dict[str, object]:
    return {"subject": tuple((part,) for part in parts)}


@for_each(
    "certificate, name",
    [
        (
            subject(("countryName", "DE"), ("organizationName", "Example, Inc."), ("commonName", "alice")),
            "CN=alice,O=Example\\, Inc.,C=DE",
        ),
        (
            subject(("domainComponent", "org"), ("userId", "#1 + 2"), ("commonName", " a ")),
            "CN=\\ a\\ ,UID=\\#1 \\+ 2,DC=org",
        ),
        (subject(("emailAddress", "a@b"), ("commonName", "a")), "CN=a,1.2.840.113549.1.9.1=#1603614062"),
        ({"subject": ((("commonName", "a"), ("organizationalUnitName", "b")),)}, "CN=a+OU=b"),
    ],
)
def test_a_distinguished_name_is_written_as_java_writes_it(certificate: dict[str, object], name: str) -> None:
    assert distinguished_name(certificate) == name


RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)
"""The rules of KIP-371's examples."""


@for_each(
    "name, user",
    [
        ("CN=kafka1,OU=ServiceUsers,O=Org", "kafka1"),
        ("CN=Alice,OU=People,O=Org", "alice@people"),
        ("O=Org,cn=bob", "BOB"),
        ("UID=carol", "UID=carol"),
    ],
)
def test_names_are_mapped_by_the_first_rule_that_matches_all_of_them(name: str, user: str) -> None:
    assert MappingRules(RULES).name_of(name) == user


def test_the_subject_of_a_certificate_that_was_signed_is_read(tmp_path: Path) -> None:
    signed: Signed = AUTHORITY.sign("alice", unit="people")
    assert signed.certificate.subject.rfc4514_string() == "CN=alice,OU=people,O=Example\\, Inc."
