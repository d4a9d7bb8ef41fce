"""Lines of text for a terminal, wrapped, cleaned and coloured."""

import re
import textwrap
import unicodedata

_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
"""A word of a shell command, with spaces where they are quoted."""
_GOES_ON = " \\"
_RESET = "\x1b[0m"
_CODES = {"yes": "34;1", "no": "33;1", "unknown": "35;1", "none": "2", "bold": "1", "quiet": "2"}


class Paper:
    """Collects lines that are never wider than the width, with or without colour."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self._colour = colour
        self._lines: list[str] = []

    def text(self) -> str:
        """Return all lines, each with its end."""
        return "\n".join(self._lines) + "\n"

    def add(self, text: str = "", *, style: str = "", indent: int = 0, hang: int = 0) -> None:
        """Add text, wrapped; lines after the first are indented by `hang` more."""
        for line in str(text).splitlines() or [""]:
            wrapped = textwrap.wrap(
                _printable(line),
                self.width,
                initial_indent=" " * indent,
                subsequent_indent=" " * (indent + hang),
                break_on_hyphens=False,
            )
            self._lines += [self._styled(part, style) for part in wrapped or [""]]

    def add_command(self, text: str, *, indent: int = 0) -> None:
        """Add a shell command to copy, whose continued lines end with a backslash.

        A word that is longer than a line is left whole.
        """
        line, *words = _WORD.findall(_printable(text))
        lines = []
        for word in words:
            if indent + len(line) + len(word) + len(_GOES_ON) + 1 > self.width:
                lines.append(line + _GOES_ON)
                line = f"  {word}"
            else:
                line += f" {word}"
        self._lines += [" " * indent + each for each in (*lines, line)]

    def heading(self, text: str) -> None:
        """Add a heading with an empty line above it."""
        self.add()
        self.add(text, style="bold")

    def _styled(self, line: str, style: str) -> str:
        if not (self._colour and style and line):
            return line
        return f"\x1b[{_CODES[style]}m{line}{_RESET}"


def _printable(text: str) -> str:
    """Return the text in characters of one column that do not drive the terminal."""
    return "".join(_one_column(letter) for letter in text.expandtabs(4))


def _one_column(letter: str) -> str:
    if not letter.isprintable():
        return "?"
    is_wide = unicodedata.east_asian_width(letter) in ("W", "F")
    return f"\\u{ord(letter):04x}" if is_wide else letter
