"""Tables of settings: keys with types and rules, and the base class of the tables.

A table is a class whose annotated attributes are its keys; the attribute `retention_ms` is the key `retention.ms`:

    class LogConfig(Settings):
        retention_ms: int = key(LONG, 604_800_000, at_least(-1), "How long ...")

Parsing, DescribeConfigs, `config/server.properties` and the reference page all read the same keys.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..protocol.similar_names import similar_names

if TYPE_CHECKING:
    from typing_extensions import Self

OWN_PREFIX = "kmini."
"""Prefix of the settings that Apache Kafka does not have."""

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1

_SHOWN_LENGTH = 100
"""Characters of a client's text that a message shows, at most."""


class ConfigType(NamedTuple):
    """A type of values. `parse` takes the trimmed text; its ValueError says what was expected."""

    name: str
    """As in Kafka's documentation, in small letters. LIST and SET have the same one."""
    parse: Callable[[str], Any]
    text: Callable[[Any], str]


def _parse_boolean(text: str) -> bool:
    try:
        return {"true": True, "false": False}[text.lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


def _integer_parser(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) < 100):
            raise ValueError("must be a whole number")
        value = int(text)
        if not -limit <= value < limit:
            raise ValueError(f"must fit in {bits} bits")
        return value

    return parse


def _parse_double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("must be a number") from None
    if value != value:
        raise ValueError("must be a number")
    return value


def split_list(text: str) -> tuple[str, ...]:
    """Return the trimmed items of a comma-separated list; an empty text is an empty list."""
    return tuple(item.strip() for item in text.split(",")) if text else ()


def _parse_set(text: str) -> tuple[str, ...]:
    items = split_list(text)
    if "" in items:
        raise ValueError("must not have empty items")
    return tuple(dict.fromkeys(items))


def _text_of_double(value: float) -> str:
    return repr(value).replace("e+", "E").replace("e", "E")


BOOLEAN = ConfigType("boolean", _parse_boolean, lambda value: "true" if value else "false")
STRING = ConfigType("string", str, str)
INT = ConfigType("int", _integer_parser(32), str)
SHORT = ConfigType("short", _integer_parser(16), str)
LONG = ConfigType("long", _integer_parser(64), str)
DOUBLE = ConfigType("double", _parse_double, _text_of_double)
LIST = ConfigType("list", split_list, ",".join)
PASSWORD = ConfigType("password", str, str)
"""A secret text: answers, messages and files leave it out."""
SET = ConfigType("list", _parse_set, ",".join)
"""A list without repetitions and without empty items (KIP-1161)."""


class Rule(NamedTuple):
    """The values of its type that a key allows; `text` completes the sentence "<key> ..."."""

    text: str
    allows: Callable[[Any], bool]


ANY = Rule("", lambda value: True)


def at_least(low: float) -> Rule:
    return Rule(f"must be at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Rule:
    return Rule(f"must be between {low} and {high}", lambda value: low <= value <= high)


def one_of(*choices: str) -> Rule:
    return Rule(f"must be one of {', '.join(choices)}", lambda value: value in choices)


def one_of_any_case(*choices: str) -> Rule:
    return Rule(f"must be one of {', '.join(choices)}, in any case", lambda value: value.lower() in choices)


def each_of(*choices: str) -> Rule:
    return Rule(f"may contain {', '.join(choices)}", lambda value: set(value) <= set(choices))


def any_rule(*rules: Rule) -> Rule:
    """Return a rule that allows a value if one of the rules does."""
    return Rule(" or ".join(rule.text for rule in rules), lambda value: any(rule.allows(value) for rule in rules))


def exactly(*values: object) -> Rule:
    return Rule(f"must be {' or '.join(str(value).lower() for value in values)}", lambda value: value in values)


READ_ONLY = "read-only"
CLUSTER_WIDE = "cluster-wide"


class ConfigKey:
    """One setting: a line of a table."""

    __slots__ = (
        "attribute",
        "broker_keys",
        "default",
        "differs",
        "doc",
        "dynamic",
        "internal",
        "name",
        "no_effect",
        "rule",
        "section",
        "type",
    )

    name: str
    attribute: str
    """The attribute of the table; a key outside of tables has none."""
    type: ConfigType
    default: Any
    """A value, not its text; None if the key has no value unless one is given."""
    rule: Rule
    doc: str
    broker_keys: tuple[str, ...]
    """For a topic key: the broker keys that give its default, the strongest (and finest unit) first."""
    dynamic: str
    """READ_ONLY, or CLUSTER_WIDE if it can change while the broker runs, for one broker or for all at once."""
    differs: str
    """Why kmini's default or rule differs from Kafka's; empty if it does not."""
    no_effect: str
    """Why the value is accepted, stored and described, but has no effect; empty if it has one."""
    section: str
    """The heading above this line where the table is printed; empty for none."""
    internal: bool
    """Whether DescribeConfigs leaves the setting out unless it is set, as Kafka does with its internal ones."""

    def __init__(
        self,
        type: ConfigType,
        default: Any,
        rule: Rule,
        doc: str,
        *,
        name: str = "",
        broker_keys: tuple[str, ...] = (),
        dynamic: str = READ_ONLY,
        differs: str = "",
        no_effect: str = "",
        section: str = "",
        internal: bool = False,
    ) -> None:
        self.name, self.type, self.default, self.rule, self.doc = name, type, default, rule, doc
        self.broker_keys, self.dynamic, self.section = broker_keys, dynamic, section
        self.differs, self.no_effect, self.internal = differs, no_effect, internal

    def __set_name__(self, owner: Any, attribute: str) -> None:
        self.attribute = attribute
        self.name = attribute.replace("_", ".")

    def parse(self, text: str, *, may_be_unset: bool = True) -> Any:
        """Return the value of `text`. With `may_be_unset`, an empty text is None if that is the default.

        Raises ValueError, which names key, value and rule.
        """
        text = text.strip()
        if not text and self.default is None and may_be_unset:
            return None
        try:
            value = self.type.parse(text)
            if not self.rule.allows(value):
                raise ValueError(self.rule.text)
        except ValueError as error:
            shown = "[hidden]" if self.is_secret else shorten(text)
            raise ValueError(f"{self.name}={shown}: {error}") from None
        return value

    @property
    def is_secret(self) -> bool:
        """Whether its value must not be shown."""
        return self.type is PASSWORD

    def text(self, value: Any) -> str | None:
        """Return `value` as in a properties file; None for no value, and for a secret."""
        return None if value is None or self.is_secret else self.type.text(value)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type.name} = {self.text(self.default)}>"


def key(
    type: ConfigType,
    default: Any,
    rule: Rule,
    doc: str,
    *,
    broker: str = "",
    dynamic: str = READ_ONLY,
    differs: str = "",
    no_effect: str = "",
    section: str = "",
    internal: bool = False,
) -> Any:
    """A line of a `Settings` table. `broker` names the broker keys behind a topic key, blank-separated."""
    return ConfigKey(
        type,
        default,
        rule,
        doc,
        broker_keys=tuple(broker.split()),
        dynamic=dynamic,
        differs=differs,
        no_effect=no_effect,
        section=section,
        internal=internal,
    )


class Settings:
    """An immutable set of values, one for every key of the table that its class is. A table may extend another one."""

    KEYS: ClassVar[dict[str, ConfigKey]] = {}
    """Every key by its name, in the order of the table; those of a table that it extends come last."""

    def __init_subclass__(cls) -> None:
        keys = [line for line in vars(cls).values() if isinstance(line, ConfigKey)]
        inherited = cls.KEYS
        cls.KEYS = {**{line.name: line for line in keys}, **inherited}
        for line in keys:
            delattr(cls, line.attribute)

    def __init__(self, **values: Any) -> None:
        """Take the table's defaults, except for `values`, given by attribute name. They are not checked again."""
        mine = self.__dict__
        for line in self.KEYS.values():
            mine[line.attribute] = line.default
        for attribute, value in values.items():
            if attribute not in mine:
                raise TypeError(f"{type(self).__name__} has no setting {attribute}")
            mine[attribute] = value

    def replace(self, **values: Any) -> "Self":
        """Return a copy with these `values`, given by attribute name."""
        return type(self)(**{**self._values(), **values})

    def _values(self) -> dict[str, Any]:
        """The arguments of the constructor for an equal copy."""
        return self.__dict__

    def value_of(self, key: ConfigKey) -> Any:
        return self.__dict__[key.attribute]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; use replace({name}=...)")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changed = (line for line in self.KEYS.values() if self.value_of(line) != line.default and not line.is_secret)
        return f"{type(self).__name__}({', '.join(f'{k.attribute}={self.value_of(k)!r}' for k in changed)})"


def shorten(text: str) -> str:
    """Return `text` on one line, escaped and cut: it may come from a client."""
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return shown if len(shown) <= _SHOWN_LENGTH else shown[: _SHOWN_LENGTH - 1] + "…"


def closest(name: str, known: Iterable[str]) -> str:
    """Return ` (did you mean ...?)` if one of the known names is near, else an empty text."""
    near = similar_names(name, known)
    return f" (did you mean {near[0]}?)" if near else ""
