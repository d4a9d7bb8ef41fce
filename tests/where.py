"""docs/where.md: a line for each room and module, taken from their docstrings.

    python -m tests.where

writes the page; `tests/test_where.py` compares it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs/where.md"
TOP = ("clusters", "faults", "checkers", "harness")
"""The top folders that can be imported, the lowest first. `tests/` mirrors them."""
BESIDE = {
    "benchmarks": "Benchmarks, which compare side by side in one run and print ratios.",
    "tests/support": "Helpers that tests share.",
}
"""Folders with modules that no product imports, and what is there: they are no packages."""

_HEAD = """# Where things are

A line for each room and module, lower rooms first; `tests/` mirrors them. Benchmarks follow, and
helpers that tests share. Written by `python -m tests.where`; do not edit.
"""


def page() -> str:
    """Return the page, from the modules as they are."""
    # The package itself has links to the top folders beside its modules.
    rooms = [REPOSITORY / "kchaos"]
    rooms += [room for top in (*TOP, *BESIDE) for room in _rooms(REPOSITORY / top)]
    return "\n".join([_HEAD, *("\n".join(_lines(room)) + "\n" for room in rooms)])


def first_line(module: Path) -> str:
    """Return the first line of a module's docstring, "" for none."""
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    return docstring.splitlines()[0] if docstring else ""


def _rooms(folder: Path) -> Iterator[Path]:
    """Yield a folder and those in it that have modules, each before what is in it."""
    if any(folder.glob("*.py")):
        yield folder
    for inner in sorted(path for path in folder.iterdir() if path.is_dir()):
        yield from _rooms(inner)


def _lines(room: Path) -> Iterator[str]:
    init = room / "__init__.py"
    name = room.relative_to(REPOSITORY).as_posix()
    said = first_line(init) if init.exists() else BESIDE.get(name, "")
    yield f"## {name}/\n"
    if said:
        yield f"{said}\n"
    for module in sorted(room.glob("*.py")):
        if module.name != "__init__.py":
            yield f"- `{module.name}`: {first_line(module)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
