"""The syntax of RE2, as RE2/J reads it: an expression becomes a tree. What Perl has and RE2 lacks is refused.

| syntax                          | meaning                                                                       |
|---------------------------------|-------------------------------------------------------------------------------|
| x* x+ x? x{2} x{2,} x{2,5}      | repetitions, at most 1,000 times; with ? behind, which finds the same matches |
| x|y, (x), (?:x), (?P<n>x)       | alternatives and groups                                                       |
| (?i) (?s) (?m) (?U), (?i:x)     | flags: any case, . is also a line feed, ^ and $ are also at lines, no effect  |
| ^ $ \\A \\z \\b \\B                 | places                                                                        |
| . [a-z] [^a-z] [[:alpha:]]      | classes                                                                       |
| \\d \\s \\w \\pN \\p{Lu} and negated | classes, of ASCII but for \\p, which takes general categories                 |
| \\n \\x41 \\x{41} \\101 \\Q...\\E    | characters                                                                    |
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from ...protocol.errors import InvalidRegularExpression
from .characters import ANY, PERL, POSIX, Test, any_of, folded, in_all_cases, negated, of_ranges, of_unicode

MOST_REPEATED = 1_000
"""How often a part may be repeated, also by repetitions in one another."""
MOST_NESTED = 200
"""Groups in one another."""
MOST_CHARACTERS = 10_000
"""Characters of an expression."""
LAST_CHARACTER = 0x10FFFF

TOO_LARGE = "the regular expression is too large"
_REPEATED_TOO_OFTEN = f"a part is repeated more than {MOST_REPEATED} times"


class Place(Enum):
    """Where a part matches that takes no character."""

    TEXT_START = "^"
    TEXT_END = "$"
    LINE_START = "(?m)^"
    LINE_END = "(?m)$"
    WORD_BOUNDARY = "\\b"
    NO_WORD_BOUNDARY = "\\B"


class Character(NamedTuple):
    """One character."""

    test: Test


class Sequence(NamedTuple):
    """Parts one after the other; none match the empty text."""

    parts: tuple[Node, ...]
    times: int
    """How often a character of it is repeated by bounds, at most."""


class Alternatives(NamedTuple):
    """One of these parts."""

    parts: tuple[Node, ...]
    times: int


class Repetition(NamedTuple):
    """A part, several times."""

    part: Node
    least: int
    most: int | None
    """None for any number."""
    times: int


Node = Character | Place | Sequence | Alternatives | Repetition


class _Flags(NamedTuple):
    ignores_case: bool = False
    dot_is_all: bool = False
    has_lines: bool = False


_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLACES = {"A": Place.TEXT_START, "z": Place.TEXT_END, "b": Place.WORD_BOUNDARY, "B": Place.NO_WORD_BOUNDARY}
_OCTAL, _HEXADECIMAL = "01234567", "0123456789abcdefABCDEF"


def parse(expression: str) -> Node:
    """The tree of an expression. Raises InvalidRegularExpression."""
    if len(expression) > MOST_CHARACTERS:
        raise InvalidRegularExpression(TOO_LARGE)
    parser = _Parser(expression)
    node = parser.alternatives(_Flags(), 0)
    if parser.left:
        raise parser.wrong("a group ends that has not begun")
    return node


class _Parser:
    """Reads an expression from its beginning to its end."""

    def __init__(self, expression: str) -> None:
        self._text = expression
        self._position = 0
        self._names: set[str] = set()

    # --- the text

    @property
    def left(self) -> bool:
        return self._position < len(self._text)

    def wrong(self, reason: str) -> InvalidRegularExpression:
        return InvalidRegularExpression(f"no regular expression of RE2: {reason}")

    def _is_next(self, text: str) -> bool:
        return self._text.startswith(text, self._position)

    def _took(self, text: str) -> bool:
        """Go beyond this text, if it is next."""
        if not self._is_next(text):
            return False
        self._position += len(text)
        return True

    def _take(self) -> str:
        if not self.left:
            raise self.wrong("it ends too early")
        self._position += 1
        return self._text[self._position - 1]

    # --- structure

    def alternatives(self, flags: _Flags, depth: int) -> Node:
        """The alternatives up to the end of the group, or of the expression."""
        if depth > MOST_NESTED:
            raise self.wrong(f"its groups are nested more than {MOST_NESTED} deep")
        found: list[Node] = []
        parts: list[Node] = []
        is_repeated = False
        while self.left and not self._is_next(")"):
            bounds = self._bounds()
            if bounds is not None:
                if is_repeated:
                    raise self.wrong("a repetition is repeated, which needs parentheses")
                if not parts:
                    raise self.wrong("a repetition has nothing to repeat")
                self._took("?")
                parts[-1] = self._repetition(parts[-1], *bounds)
                is_repeated = True
                continue
            is_repeated = False
            changed = self._flags_alone(flags)
            if changed is not None:
                flags = changed
            elif self._took("|"):
                found.append(Sequence(tuple(parts), _times(parts)))
                parts = []
            elif self._took("\\Q"):
                parts += self._quoted(flags)
            else:
                parts.append(self._atom(flags, depth))
        found.append(Sequence(tuple(parts), _times(parts)))
        return found[0] if len(found) == 1 else Alternatives(tuple(found), _times(found))

    def _quoted(self, flags: _Flags) -> list[Node]:
        """The characters up to \\E, or to the end."""
        end = self._text.find("\\E", self._position)
        quoted = self._text[self._position :] if end < 0 else self._text[self._position : end]
        self._position = len(self._text) if end < 0 else end + 2
        return [self._literal(each, flags) for each in quoted]

    def _atom(self, flags: _Flags, depth: int) -> Node:
        character = self._take()
        if character == "(":
            return self._group(flags, depth)
        if character == "[":
            return Character(self._class(flags))
        if character == ".":
            return Character(ANY if flags.dot_is_all else "\n".__ne__)
        if character == "^":
            return Place.LINE_START if flags.has_lines else Place.TEXT_START
        if character == "$":
            return Place.LINE_END if flags.has_lines else Place.TEXT_END
        if character == "\\":
            return self._escaped(flags)
        return self._literal(character, flags)

    def _literal(self, character: str, flags: _Flags) -> Node:
        return Character(in_all_cases(character).__contains__ if flags.ignores_case else character.__eq__)

    # --- repetitions

    def _repetition(self, node: Node, least: int, most: int | None) -> Node:
        times = 1 if most == 0 else max(least if most is None else most, 1) * _times((node,))
        if times > MOST_REPEATED:
            raise self.wrong(_REPEATED_TOO_OFTEN)
        return Repetition(node, least, most, times)

    def _bounds(self) -> tuple[int, int | None] | None:
        """The bounds of the repetition that is next; None if none is."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._took(sign):
                return bounds
        if not self._is_next("{"):
            return None
        end = self._text.find("}", self._position)
        least, comma, most = self._text[self._position + 1 : end].partition(",")
        if end < 0 or not _is_number(least) or (most and not _is_number(most)):
            return None  # RE2 takes such a brace for a character
        self._position = end + 1
        low = self._count(least)
        high = self._count(most) if most else None if comma else low
        if high is not None and high < low:
            raise self.wrong(f"{{{least},{most}}} has its bounds the wrong way round")
        return low, high

    def _count(self, digits: str) -> int:
        if len(digits) > len(str(MOST_REPEATED)) or int(digits) > MOST_REPEATED:
            raise self.wrong(_REPEATED_TOO_OFTEN)
        return int(digits)

    # --- groups and flags

    def _group(self, flags: _Flags, depth: int) -> Node:
        if self._is_next("?"):
            flags = self._group_kind(flags)
        node = self.alternatives(flags, depth + 1)
        if not self._took(")"):
            raise self.wrong("a group does not end")
        return node

    def _group_kind(self, flags: _Flags) -> _Flags:
        """The flags in a group that begins with a question mark, which is next."""
        for start in ("?P<", "?<"):
            if self._is_next(start) and not self._text.startswith(("?<=", "?<!"), self._position):
                self._position += len(start)
                self._name()
                return flags
        self._take()
        flags, end = self._flag_letters(flags)
        if end != ":":
            raise self.wrong("RE2 has no such group")
        return flags

    def _name(self) -> None:
        end = self._text.find(">", self._position)
        name = self._text[self._position : end]
        if end < 0 or not name or not all(map(PERL["w"], name)):
            raise self.wrong("the name of a group consists of letters, digits and _")
        if name in self._names:
            raise self.wrong(f"two groups have the name {name}")
        self._names.add(name)
        self._position = end + 1

    def _flags_alone(self, flags: _Flags) -> _Flags | None:
        """The flags that hold from here on, if flags without a group are next."""
        start = self._position
        if not self._took("(?") or not self.left or self._text[self._position] in "P<":
            self._position = start
            return None
        changed, end = self._flag_letters(flags)
        if end == ")":
            return changed
        self._position = start
        return None

    def _flag_letters(self, flags: _Flags) -> tuple[_Flags, str]:
        """The flags that letters make of these, and the character behind them. Raises InvalidRegularExpression."""
        is_set, letters = True, 0
        while True:
            letter = self._take()
            if letter in ":)":
                if not is_set and not letters:
                    raise self.wrong("there is no flag behind a -")
                return flags, letter
            if letter == "-" and is_set:
                is_set, letters = False, 0
                continue
            letters += 1
            if letter == "i":
                flags = flags._replace(ignores_case=is_set)
            elif letter == "s":
                flags = flags._replace(dot_is_all=is_set)
            elif letter == "m":
                flags = flags._replace(has_lines=is_set)
            elif letter != "U":
                raise self.wrong(f"RE2 has no group (?{letter}")

    # --- escapes

    def _escaped(self, flags: _Flags) -> Node:
        """What a backslash, which is read, begins outside of a class."""
        letter = self._text[self._position : self._position + 1]
        if letter in _PLACES and letter:
            self._position += 1
            return _PLACES[letter]
        test = self._escaped_class(flags)
        return self._literal(self._escaped_character(), flags) if test is None else Character(test)

    def _escaped_class(self, flags: _Flags) -> Test | None:
        """The class of \\d, \\pN and the like, if one is next behind a backslash."""
        letter = self._text[self._position : self._position + 1]
        if letter.lower() in PERL and letter:
            self._position += 1
            test = PERL[letter.lower()]
            test = folded(test) if flags.ignores_case else test
            return test if letter.islower() else negated(test)
        if letter not in ("p", "P"):
            return None
        self._position += 1
        name = self._take()
        if name == "{":
            end = self._text.find("}", self._position)
            if end < 0:
                raise self.wrong("a name of \\p does not end")
            name = self._text[self._position : end]
            self._position = end + 1
        is_negated = (letter == "P") is not name.startswith("^")
        found = of_unicode(name.removeprefix("^"))
        if found is None:
            raise self.wrong(f"{name} is no general category of Unicode (scripts are not served)")
        if is_negated:
            return negated(found)  # in any case as it is, as in RE2/J
        return folded(found) if flags.ignores_case else found

    def _escaped_character(self) -> str:
        """The character that a backslash, which is read, begins."""
        letter = self._take()
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "1234567" and self._text[self._position : self._position + 1] not in tuple(_OCTAL):
            raise self.wrong("RE2 has no back references")
        if letter in _OCTAL:
            digits = letter
            while len(digits) < 3 and self.left and self._text[self._position] in _OCTAL:
                digits += self._take()
            return chr(int(digits, 8))
        if letter == "x":
            return self._hexadecimal()
        if not (letter.isascii() and letter.isalnum()):
            return letter
        raise self.wrong(f"there is no \\{letter}")

    def _hexadecimal(self) -> str:
        if self._took("{"):
            end = self._text.find("}", self._position)
            digits = self._text[self._position : end] if end >= 0 else ""
            self._position = end + 1
        else:
            digits = self._text[self._position : self._position + 2]
            self._position += 2
            digits = digits if len(digits) == 2 else ""
        if not digits or len(digits) > 8 or not all(each in _HEXADECIMAL for each in digits):
            raise self.wrong("\\x is followed by two hexadecimal digits, or by some in braces")
        if int(digits, 16) > LAST_CHARACTER:
            raise self.wrong(f"there is no character \\x{{{digits}}}")
        return chr(int(digits, 16))

    # --- classes

    def _class(self, flags: _Flags) -> Test:
        """The class whose bracket is read."""
        is_negated = self._took("^")
        tests: set[Test] = set()
        ranges: list[tuple[str, str]] = []
        is_first = True
        while is_first or not self._is_next("]"):
            is_first = False
            item = self._class_item(flags)
            if isinstance(item, tuple):
                ranges.append(item)
            else:
                tests.add(item)
        self._position += 1
        if ranges:
            test = of_ranges(ranges)
            tests.add(folded(test) if flags.ignores_case else test)
        return negated(any_of(tests)) if is_negated else any_of(tests)

    def _class_item(self, flags: _Flags) -> Test | tuple[str, str]:
        """The next item of a class: a class, or the first and the last character of a range."""
        if self._is_next("[:") and (end := self._text.find(":]", self._position + 2)) >= 0:
            name = self._text[self._position + 2 : end]
            posix = POSIX.get(name.removeprefix("^"))
            if posix is None:
                raise self.wrong(f"there is no class [:{name}:]")
            self._position = end + 2
            test = folded(posix) if flags.ignores_case else posix
            return negated(test) if name.startswith("^") else test
        if self._is_next("\\"):
            self._position += 1
            escaped = self._escaped_class(flags)
            if escaped is not None:
                return escaped
            first = self._escaped_character()
        else:
            first = self._class_character()
        last = first
        if self._is_next("-") and self.left and not self._is_next("-]"):
            self._position += 1
            last = self._escaped_character() if self._took("\\") else self._class_character()
        if last < first:
            raise self.wrong(f"the range {first}-{last} is the wrong way round")
        return first, last

    def _class_character(self) -> str:
        if not self.left:
            raise self.wrong("a class does not end")
        return self._take()


def _is_number(digits: str) -> bool:
    return bool(digits) and digits.isascii() and digits.isdigit() and (digits == "0" or digits[0] != "0")


def _times(nodes: Iterable[Node]) -> int:
    """How often a character of these is repeated by bounds, at most."""
    return max((1 if isinstance(node, (Character, Place)) else node.times for node in nodes), default=1)
