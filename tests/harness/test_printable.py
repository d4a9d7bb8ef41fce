import pytest

from kchaos.harness.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with ü and 漢", "plain, with ü and 漢"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m and \x07", "\\x9b31m and \\x07"),
        ("\u202eturned", "\\u202eturned"),
        ("half \ud800", "half \\ud800"),
        ("back\r", "back\\x0d"),
    ],
)
def test_what_a_terminal_would_act_upon_is_spelt_out(text: str, shown: str):
    assert printable(text) == shown
