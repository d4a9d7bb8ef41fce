"""Text for terminals: what a run says may not move the cursor, hide lines or turn them around."""

import textwrap
import unicodedata

WIDTH, INDENT = 80, "  "
_HARMLESS = "\n\t"
_DANGEROUS = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Control characters (C0, C1 and ESC), direction marks, surrogates, private use, separators."""


def printable(text: str) -> str:
    """Return the text with each control character of a terminal as text, as in \\x1b."""
    if text.isprintable():
        return text
    return "".join(map(_spelt, text))


def _spelt(character: str) -> str:
    if character in _HARMLESS or unicodedata.category(character) not in _DANGEROUS:
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def wrapped(text: str) -> list[str]:
    """Return the text in lines of 80 columns, all of them indented."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=INDENT,
        subsequent_indent=INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )
