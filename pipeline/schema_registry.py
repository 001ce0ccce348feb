"""A client of a schema registry, by Confluent's REST interface: the versions of a subject, and registering one."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

URL = "schema.registry.url"
USER_INFO = "basic.auth.user.info"
ANSWER_WITHIN_S = 15.0
NOT_FOUND = 404
V1_JSON = "application/vnd.schemaregistry.v1+json"


class RegistryError(Exception):
    """The registry cannot be reached, refuses a request, or lacks a schema; the message is one sentence."""


@dataclass(frozen=True)
class SchemaVersion:
    """A version of a subject."""

    version: int
    id: int
    text: str
    """The schema as JSON; types of other subjects are written in it."""


class SchemaRegistry:
    """A schema registry. Every method blocks for `ANSWER_WITHIN_S` at most a request, and raises `RegistryError`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """`settings` are those of Confluent's serializers for Java: `schema.registry.url`, and `basic.auth.user.info`
        unless the URL has user and password."""
        if not settings.get(URL):
            raise RegistryError(f"no setting {URL} says where the schema registry is: Kafka(settings=...) takes it")
        parts = urlsplit(settings[URL])
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryError(f"{URL} is no http://HOST:PORT or https://HOST:PORT")
        user_info, _, place = parts.netloc.rpartition("@")
        self.url = parts._replace(netloc=place).geturl().rstrip("/")
        self._headers = {"Content-Type": V1_JSON, "Accept": f"{V1_JSON}, application/json"}
        if user_info := settings.get(USER_INFO) or unquote(user_info):
            self._headers["Authorization"] = f"Basic {b64encode(user_info.encode()).decode()}"

    def versions(self, subject: str) -> list[SchemaVersion]:
        """The versions of a subject, oldest first; deleted ones too, since records may have them. Empty for a subject
        that is not there."""
        numbers = self._asked(f"/subjects/{quote(subject, safe='')}/versions?deleted=true", missing=[])
        return [self._version(subject, f"{number}?deleted=true&format=resolved") for number in sorted(numbers)]

    def latest(self, subject: str) -> SchemaVersion:
        return self._version(subject, "latest?format=resolved")

    def register(self, subject: str, schema: str) -> int:
        """Register an Avro schema, unless the subject has it; return its id."""
        return int(self._asked(f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})["id"])

    def id_of(self, subject: str, schema: str) -> int | None:
        """The id of an Avro schema in a subject; None if it has no version of it."""
        found = self._asked(f"/subjects/{quote(subject, safe='')}", {"schema": schema}, missing={"id": None})
        return None if found["id"] is None else int(found["id"])

    def _version(self, subject: str, which: str) -> SchemaVersion:
        found = self._asked(f"/subjects/{quote(subject, safe='')}/versions/{which}")
        if (kind := found.get("schemaType", "AVRO")) != "AVRO":
            raise RegistryError(f"version {found['version']} of subject {subject!r} at {self.url} is {kind}, not Avro")
        return SchemaVersion(found["version"], found["id"], found["schema"])

    def _asked(self, path: str, body: Any = None, *, missing: Any = None) -> Any:
        """The document of an answer; `missing`, if it is given, where nothing is found."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request, urlopen

        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(self.url + path, data, self._headers), timeout=ANSWER_WITHIN_S) as answer:
                return json.load(answer)
        except HTTPError as error:
            with error:
                if error.code == NOT_FOUND and missing is not None:
                    return missing
                told = _message(error.read()) or error.reason
            raise RegistryError(f"the schema registry at {self.url} answers {error.code}: {told}") from None
        except (OSError, HTTPException, ValueError) as error:
            told = str(getattr(error, "reason", error))
            raise RegistryError(f"no schema registry answers at {self.url}: {told}") from None


def _message(body: bytes) -> str:
    """The message of an error document; empty for another body."""
    try:
        return " ".join(str(json.loads(body)["message"]).split())[:500]
    except (ValueError, KeyError, TypeError):
        return ""
