"""EDN, Clojure's data notation: text in, plain Python values out, with the line of each value.

Keywords, symbols and characters become texts without their colon or backslash; vectors and lists
become lists, sets too, and tuples where they are keys of a map. A tag (`#jepsen.history.Op`) is
passed over, and what it is before stays. What only Clojure reads stays a text (`0x1` in
`#object[a.B 0x1]`, `1/3`, `##NaN`): whoever needs a number there refuses it. No value is built by
code of the text's choice.

Source: the format's description at github.com/edn-format/edn.
"""

import re
from collections.abc import Iterator
from typing import Any

MOST_NESTED = 64
"""Most levels of collections."""
_MOST_DIGITS = 400
_TOKEN = re.compile(
    r"""
    (?P<blank>(?:[\s,]+|;[^\n]*)+)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<discard>\#_)
    |(?P<open>\#\{|[\[({])
    |(?P<close>[\])}])
    |(?P<character>\\(?:u[0-9a-fA-F]{4}|[a-z]+|.))
    |(?P<tag>\#(?![\#'])[^\s,\[\](){}"';]*)
    |(?P<atom>[^\s,\[\](){}"\\;]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?\d+N?")
_DECIMAL = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_CLOSING = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", "\\": "\\", '"': '"'}
_CHARACTERS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t"}
_WORDS = {"nil": None, "true": True, "false": False}
_END = object()


class EdnError(ValueError):
    """The text is no EDN; the message names the line."""


def edn_values(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the line and the value of each form, or of each element if the only form is a list.

    Raises:
        EdnError: The text is no EDN, or is nested too deep.
    """
    reader = _Reader(text)
    is_list = reader.begins_list()
    while (value := reader.form(0)) is not _END:
        yield reader.began_in, value
    if is_list:
        reader.expect_end()


class _Reader:
    """Reads forms from where it stands."""

    def __init__(self, text: str) -> None:
        self.began_in = 1
        self._text = text
        self._position = 0
        self._line = 1
        self._closing = ""

    def begins_list(self) -> bool:
        """Return whether the text is a vector or a list, whose elements are then the forms."""
        token = self._next()
        if token is not None and token[1] in ("[", "("):
            self._closing = _CLOSING[token[1]]
            return True
        self._position, self._line = 0, 1
        return False

    def expect_end(self) -> None:
        """Raise `EdnError` if something follows."""
        if self._next() is not None:
            raise self._error("something follows the list that should be the whole text")

    def form(self, depth: int, closing: str | None = None) -> Any:
        """Return the next form, or `_END` at the end of the enclosing one."""
        if depth > MOST_NESTED:
            raise self._error(f"collections are nested deeper than {MOST_NESTED}")
        closing = self._closing if closing is None else closing
        while True:
            token = self._next()
            if depth == 0:
                self.began_in = self._line
            if token is None:
                if closing:
                    raise self._error(f"the text ends before {closing!r}")
                return _END
            kind, text = token
            if kind == "close":
                if text != closing:
                    raise self._error(f"{text!r} closes nothing")
                return _END
            if kind != "discard":
                return self._value(kind, text, depth, closing)
            self._after(text, depth, closing)

    def _value(self, kind: str, text: str, depth: int, closing: str) -> Any:
        match kind:
            case "open":
                return self._collection(text, depth)
            case "tag":
                return self._after(text, depth, closing)
            case "string":
                return self._unescaped(text[1:-1])
            case "character":
                return self._character(text[1:])
            case _:
                return self._atom(text)

    def _after(self, text: str, depth: int, closing: str) -> Any:
        """Return the value that follows a tag or a discard."""
        value = self.form(depth + 1, closing)
        if value is _END:
            raise self._error(f"nothing follows {text!r}")
        return value

    def _next(self) -> tuple[str, str] | None:
        """Return the next token that is not blank, its kind first; None at the end."""
        while self._position < len(self._text):
            match = _TOKEN.match(self._text, self._position)
            if match is None:
                what = self._text[self._position : self._position + 20].split("\n")[0]
                raise self._error(f"{what!a} is no EDN")
            self._position = match.end()
            kind, text = match.lastgroup or "", match.group()
            if kind == "blank":
                self._line += text.count("\n")
                continue
            self._line += text.count("\n")
            return kind, text
        return None

    def _collection(self, opening: str, depth: int) -> Any:
        line = self._line
        items: list[Any] = []
        while (item := self.form(depth + 1, _CLOSING[opening])) is not _END:
            items.append(item)
        if opening != "{":
            return items
        if len(items) % 2:
            raise EdnError(f"line {line}: a map has a key without a value")
        pairs: dict[Any, Any] = {}
        for key, value in zip(items[::2], items[1::2], strict=True):
            key = _hashable(key)
            if key in pairs:
                raise EdnError(f"line {line}: a map has {key!a} twice")
            pairs[key] = value
        return pairs

    def _atom(self, text: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if text.startswith(":"):
            return text[1:]
        if len(text) <= _MOST_DIGITS and _INTEGER.fullmatch(text):
            return int(text.rstrip("N"))
        if len(text) <= _MOST_DIGITS and _DECIMAL.fullmatch(text):
            return float(text.rstrip("M"))
        return text

    def _unescaped(self, text: str) -> str:
        def meant(match: re.Match[str]) -> str:
            what = match.group(1)
            if what in _ESCAPED:
                return _ESCAPED[what]
            if len(what) == 5:
                return chr(int(what[1:], 16))
            raise self._error(f"\\{what} is nothing in a string")

        return _ESCAPE.sub(meant, text)

    def _character(self, text: str) -> str:
        if len(text) == 5 and text[0] == "u":
            return chr(int(text[1:], 16))
        if len(text) > 1 and text not in _CHARACTERS:
            raise self._error(f"\\{text} is no character")
        return _CHARACTERS.get(text, text)

    def _error(self, what: str) -> EdnError:
        return EdnError(f"line {self._line}: {what}")


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        value = [*value.items()]
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value
