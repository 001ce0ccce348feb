"""Makes rules of what a test gives, in Python or as JSON, and refuses those that can never match or act.

A refusal is a ValueError that names what is possible and the nearest name; a value of a wrong type is a TypeError.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, Protocol

from ...protocol.errors import InvalidArgument, InvalidType, error_names
from ...protocol.messages import MODULES, REQUESTS, message_name
from ..api.key_fields import kinds_of
from ..journal.registry_requests import REGISTRY
from .acts import (
    ACTS,
    Act,
    Corrupt,
    Error,
    Throttle,
    WithoutBroker,
)
from .documented_errors import GENERAL, possible
from .error_answers import MESSAGE, RECORD_ERRORS, level_of
from .matching import version_range
from .registry_rules import CONDITIONS, OF_REGISTRY, check_error
from .rule import CONNECT, DISK, EVERY_API, TLS, Rule, When, Which
from .rule_values import choices, duration, flag, integer, nearest

_KEYS = {message_name(module): api_key for api_key, module in MODULES.items()}
"""API keys by Kafka's name of the API."""
_LONGEST_NAME = 200


class Served(Protocol):
    """The versions of an API that are served."""

    @property
    def min_version(self) -> int: ...

    @property
    def max_version(self) -> int: ...


class Possible(NamedTuple):
    """What the brokers for which a rule is made can do."""

    handlers: Mapping[int, Served]
    """The requests that they serve, by API key."""
    brokers: Collection[int] | None
    """Their numbers; None where they are not known yet."""
    has_disk: bool = True
    """Whether rules about the disk reach their files, and those about the schema registry one beside them."""

    @property
    def apis(self) -> list[str]:
        """The names of the APIs that they serve."""
        return sorted(message_name(MODULES[api_key]) for api_key in self.handlers)


def api_key_of(name: str) -> int:
    """The key of an API."""
    return _KEYS[name]


def check_api(name: object, can: Possible) -> str:
    """The name of an API that is served. Raises ValueError, TypeError."""
    if not isinstance(name, str):
        raise InvalidType(f"{name!r} is no API: it is a name as str, as 'Produce'")
    if name not in _KEYS or _KEYS[name] not in can.handlers:
        known = [*can.apis, EVERY_API, CONNECT, TLS, DISK, REGISTRY]
        why = "is not served by this broker" if name in _KEYS else "does not exist"
        near = nearest(name, known)
        raise InvalidArgument(f"the API {name!r} {why}{near or '; there are: ' + ', '.join(known)}")
    return name


# --- when


def make_when(api: object, conditions: Mapping[str, Any], can: Possible) -> When:
    """The conditions of a rule. Raises ValueError and TypeError."""
    names = (api,) if isinstance(api, str) else tuple(api) if isinstance(api, Iterable) else (api,)
    if not names:
        raise InvalidArgument(f"a rule needs an API; there are: {', '.join(can.apis)}")
    if len(names) > 1 or names[0] not in (EVERY_API, CONNECT, TLS, DISK, REGISTRY):
        names = tuple(check_api(name, can) for name in names)
    known = [field.name for field in fields(When) if field.name != "api"]
    for name, value in conditions.items():
        if name not in known:
            raise InvalidArgument(f"a rule has no condition {name!r}{choices(name, known, 'It has')}")
        _check_condition(name, value)
    when = When(names, **conditions)
    if when.target == "connect":
        _only(conditions, ("broker", "listener", "connection", "where"), "a new connection")
    elif when.target == "tls":
        _only(conditions, ("broker", "listener", "where"), "a TLS handshake")
    elif when.target == "disk":
        if not can.has_disk:
            raise InvalidArgument(
                "a rule about the disk needs a broker of kmini: the files of another one are out of reach"
            )
        _only(conditions, ("topic", "partition", "broker"), "an operation on a file")
    elif when.target == "registry":
        if not can.has_disk:
            raise InvalidArgument("a rule about the schema registry needs a broker of kmini beside it")
        _only(conditions, CONDITIONS, "a request to the schema registry")
    else:
        _only(conditions, [name for name in known if name not in OF_REGISTRY], "a request of Kafka")
        _check_named(when)
    if when.broker is not None:
        _check_broker(when.broker, can)
    for name in names:
        _matching_versions(name, when, can)
    return when


def _check_broker(broker: int, can: Possible) -> None:
    if can.brokers is not None and broker not in can.brokers:
        raise InvalidArgument(f"there is no broker {broker}; there are: {', '.join(map(str, sorted(can.brokers)))}")


def _check_condition(name: str, value: Any) -> None:
    if value is None:
        return
    if name in ("partition", "broker"):
        integer(name, value, 0)
    elif name == "where":
        if not callable(value):
            raise InvalidType(f"where={value!r}: must be a function that takes the request")
    elif not isinstance(value, str) or not value:
        raise InvalidType(f"{name}={value!r}: must be a str that is not empty")
    elif name == "version":
        version_range(value)


def _only(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name, value in given.items():
        if value is not None and name not in known:
            raise InvalidArgument(f"{what} has no {name}: the conditions are {', '.join(known)}")


def _check_named(when: When) -> None:
    """Refuse a condition on what no request of these APIs names."""
    if when.api == (EVERY_API,):
        return
    for name in ("topic", "partition", "group", "transactional_id"):
        if getattr(when, name) is not None and not any(name in kinds_of(api) for api in when.api):
            has = sorted({kind for api in when.api for kind in kinds_of(api)})
            names = ", ".join(has) or "none of topic, partition, group and transactional_id"
            raise InvalidArgument(f"{'/'.join(when.api)} requests name no {name}; they name: {names}")


def _matching_versions(api: str, when: When, can: Possible) -> list[int]:
    """The versions of an API that are served and meant. Raises ValueError if there are none."""
    if api not in _KEYS:
        return []
    handler = can.handlers[_KEYS[api]]
    low, high = (0, handler.max_version) if when.version is None else version_range(when.version)
    versions = [v for v in range(handler.min_version, handler.max_version + 1) if low <= v <= high]
    if not versions:
        raise InvalidArgument(
            f"version={when.version!r}: {api} is served in versions {handler.min_version} to {handler.max_version}"
        )
    return versions


# --- which


def make_which(given: Mapping[str, Any], can: Possible) -> Which:
    """The selection of a rule. Raises ValueError and TypeError."""
    known = ["every", "for", "on_call", "probability", "seed", "skip", "times", "until"]
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidArgument(f"a rule has no selection {name!r}{choices(name, known, 'It has')}")
        if name == "for":
            values["for_ms"] = duration("for", value, least_ms=1)
        elif name == "on_call":
            numbers = (value,) if isinstance(value, int) else tuple(value) if isinstance(value, Iterable) else (value,)
            values[name] = tuple(integer(name, number, 1) for number in numbers)
        elif name == "until":
            values[name] = check_api(value, can)
        elif name == "probability":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise InvalidType(f"probability={value!r}: must be a number above 0, at most 1")
            if not 0 < value <= 1:
                raise InvalidArgument(f"probability={value!r}: must be above 0, at most 1; a rule of 0 never acts")
            values[name] = float(value)
        else:
            least = {"skip": 0, "seed": -(1 << 63)}.get(name, 1)
            values[name] = integer(name, value, least)
    which = Which(**values)
    if which.on_call and which.times is not None and which.times > len(which.on_call):
        raise InvalidArgument(f"times={which.times}: on_call names {len(which.on_call)} requests only")
    return which


# --- do


def check_acts(when: When, acts: Sequence[Act], can: Possible) -> None:
    """Refuse acts that do not go together, or that these requests cannot meet. Raises ValueError."""
    if not acts:
        raise InvalidArgument(f"a rule needs an act; there are: {', '.join(_acts_for(when))}")
    for act in acts:
        if when.target not in act.targets:
            about = {
                "request": "a request",
                "connect": "a new connection",
                "tls": "a TLS handshake",
                "disk": "an operation on a file",
                "registry": "a request to the schema registry",
            }
            raise InvalidArgument(
                f"{act.kind} is no act on {about[when.target]}; there are: {', '.join(_acts_for(when))}"
            )
    terminal = [act.kind for act in acts if act.is_terminal]
    if len(terminal) > 1:
        raise InvalidArgument(f"a rule decides once on the answer, not by {' and by '.join(terminal)}: make two rules")
    for act in acts:
        if isinstance(act, Error) and when.target == "registry":
            check_error(act)
        elif isinstance(act, Error):
            _check_error(act, when, can)
        elif isinstance(act, Throttle):
            _check_throttle(when, can)
        elif act.apis and not {*when.api} <= {*act.apis}:
            what = f"{act.kind} {act.what}" if isinstance(act, Corrupt) else act.kind
            raise InvalidArgument(f"{what} is for {' and '.join(act.apis)} alone; not for {'/'.join(when.api)}")
        elif isinstance(act, WithoutBroker):
            _check_broker(act.broker, can)


def _acts_for(when: When) -> list[str]:
    return [kind for kind, act in ACTS.items() if when.target in act.targets]


def _check_error(act: Error, when: When, can: Possible) -> None:
    if act.code not in error_names():
        raise InvalidArgument(f"there is no error {act.code!r}{nearest(act.code, error_names())}")
    if when.api == (EVERY_API,):
        if act.code not in GENERAL:
            raise InvalidArgument(f"not every API can answer {act.code}: every one can answer {', '.join(GENERAL)}")
        return
    for api in when.api:
        codes = possible(api)
        if act.code not in codes:
            raise InvalidArgument(f"{api} cannot answer {act.code}{choices(act.code, codes, 'It can answer')}")
        request = REQUESTS[_KEYS[api]]
        versions = _matching_versions(api, when, can)
        levels = [level_of(request, version, act.code) for version in versions]
        if all(level is None for level in levels):
            raise InvalidArgument(f"{api} has no error code in version {versions[0]} to {versions[-1]}")
        for name, is_given in ((MESSAGE, act.message is not None), (RECORD_ERRORS, bool(act.record_errors))):
            if is_given and not any(
                level is not None and level.has(name, request.response, version)
                for level, version in zip(levels, versions, strict=True)
            ):
                raise InvalidArgument(f"the errors of {api} have no {name} in version {versions[0]} to {versions[-1]}")


def _check_throttle(when: When, can: Possible) -> None:
    for api in when.api:
        if api == EVERY_API:
            continue
        answer = REQUESTS[_KEYS[api]].response
        found = next((field for field in answer.__fields__ if field.name == "throttle_time_ms"), None)
        if found is None or not any(map(found.exists_in, _matching_versions(api, when, can))):
            raise InvalidArgument(f"the answers of {api} have no throttle_time_ms in these versions")


# --- rules


def make_rule(name: str | None, when: When, which: Which, acts: Sequence[Act], can: Possible) -> Rule:
    """A rule. Without a name it gets one from what it does. Raises ValueError and TypeError."""
    check_acts(when, acts, can)
    if name is None:
        what = [f"{act.kind} {act.code}" if isinstance(act, Error) else act.kind for act in acts]
        name = f"{'/'.join(when.api)} {' '.join(what)}"
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise InvalidType(f"name={name!r}: must be a str of 1 to {_LONGEST_NAME} characters")
    return Rule(name, when, which, tuple(acts))


def rules_from_json(documents: object, can: Possible) -> list[Rule]:
    """The rules of a list of JSON objects. Raises ValueError and TypeError, which say where."""
    if not isinstance(documents, Sequence) or isinstance(documents, (str, bytes)):
        raise InvalidType(f"{documents!r}: must be a list of rules")
    rules = []
    for index, document in enumerate(documents):
        try:
            rules.append(rule_from_json(document, can))
        except (ValueError, TypeError) as error:
            wrong = (InvalidType if isinstance(error, TypeError) else InvalidArgument)(f"rules[{index}]: {error}")
            wrong.pointer = f"/rules/{index}"
            raise wrong from None
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(f"{names.count(name)} rules have the name {name!r}: give each its own")
    return rules


def rule_from_json(document: object, can: Possible) -> Rule:
    """The rule of a JSON object, or a rule made anew. Raises ValueError and TypeError."""
    if isinstance(document, Rule):
        return document
    parts = _object("a rule", document, ("name", "when", "which", "do"))
    when = dict(_object("when", parts.get("when", {}), [field.name for field in fields(When)]))
    made = make_when(when.pop("api", ()), when, can)
    acts = parts.get("do", ())
    if not isinstance(acts, Sequence) or isinstance(acts, (str, bytes)):
        raise InvalidType(f"do={acts!r}: must be a list of acts")
    which = _object("which", parts.get("which", {}), None)
    return make_rule(parts.get("name"), made, make_which(which, can), [act_from_json(act) for act in acts], can)


def act_from_json(document: object) -> Act:
    """The act of a JSON object. Raises ValueError and TypeError."""
    if isinstance(document, Act):
        return document
    parts = dict(_object("an act", document, None))
    kinds = [name for name in parts if name in ACTS]
    if len(kinds) != 1:
        names = ", ".join(kind for kind in ACTS if kind != "respond")
        near = nearest(next(iter(parts), ""), ACTS) if not kinds else ""
        raise InvalidArgument(f"{document!r}: an act has one of the names {names}{near}")
    kind = kinds[0]
    value = parts.pop(kind)
    if isinstance(value, dict):  # the options may stand inside as well
        parts, value = {**value, **parts}, True
    return make_act(kind, *([] if value is True else [value]), **parts)


def make_act(kind: str, *values: Any, **options: Any) -> Act:
    """An act by its name, with its main value and its options. Raises ValueError and TypeError."""
    act_type = ACTS[kind]
    names = [field.name for field in fields(act_type)]
    given = {**dict(zip(names, values, strict=False)), **options}
    for name in given:
        if name not in names:
            raise InvalidArgument(f"{kind} has no option {name!r}{choices(name, names[1:], 'It has')}")
    for name, value in given.items():
        given[name] = act_type.checks.get(name, flag)(name, value)
    try:
        return act_type(**given)
    except TypeError:
        raise InvalidType(f"{kind} needs a value: {names[0]}") from None


def _object(what: str, document: object, known: Sequence[str] | None) -> Mapping[str, Any]:
    if not isinstance(document, Mapping):
        raise InvalidType(f"{document!r}: {what} must be an object")
    for name in document:
        if known is not None and name not in known:
            raise InvalidArgument(f"{what} has no {name!r}{choices(name, known, 'It has')}")
    return document
