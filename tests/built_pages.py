"""Pages that a program writes: docs/built/modules.md and docs/built/rules.md.

`make pages` writes them (`python -m tests.built_pages`) before it builds the site.
Git ignores them.
"""

import ast
import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import LOOKED_UP
from tests.look_up.sources import COMPARED_FILE

REPOSITORY = Path(__file__).parent.parent
FOLDER = REPOSITORY / "docs/built"
TOP = ("clusters", "faults", "checkers", "harness", "studies")
"""The top folders that can be imported, the lowest first. `tests/` mirrors them."""
BESIDE = {
    "benchmarks": "Benchmarks, which compare side by side in one run and print ratios.",
    "tests/support": "Helpers that tests share.",
}
"""Folders with modules that no product imports, and what is there: they are no packages."""

_HEAD = """# Where things are

A line for each room and module, lower rooms first; `tests/` mirrors them. Benchmarks follow, and
helpers that tests share.
"""


def modules_page() -> str:
    """Return a line for each room and module, from their docstrings."""
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


_PREDICTED = {
    "elsewhere": "no decision point of its own; releases differ by other means",
    "always": "predicted as if every release had it",
    "never": "left out: predicted as if no release had it",
}


def rules_page() -> str:
    """Return each rule of the model with its meaning, its releases and its source."""
    compared = json.loads(COMPARED_FILE.read_text(encoding="utf-8"))
    head = (
        f"Each rule was looked up in the source of every release from {LOOKED_UP[0]} to "
        f"{LOOKED_UP[-1]} ({len(compared['read_at'])} of {len(LOOKED_UP)}), by the identifiers in "
        "its row of `tests/look_up/probes.toml`. A person read the code behind them. Only "
        "[kafka.md](../kafka.md) says what was seen on real brokers."
    )
    paragraphs = ["# Which release has which rule", _wrapped(head)]
    for rule in EVERY_RULE:
        paragraphs += [f"## {rule.name}", _wrapped(rule.meaning), _facts(rule, compared["found"])]
    return "\n\n".join(paragraphs) + "\n"


def _facts(rule: Rule, found: Mapping[str, str]) -> str:
    facts = [f"- Releases: {found[rule.name]}"]
    if rule.protocol:
        facts.append(f"- Inter-broker protocol: {rule.protocol} and later")
    facts.append(f"- Read in {rule.source}")
    facts.append(f"- In the model: {predicted(rule)}")
    return "\n".join(textwrap.fill(fact, 100, subsequent_indent="  ") for fact in facts)


def predicted(rule: Rule) -> str:
    """Return how the model predicts a rule, in words."""
    if rule.change is not None:
        return "a decision of its own, which `--without` switches off"
    assert rule.followed is not None
    return _PREDICTED[rule.followed]


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_on_hyphens=False, break_long_words=False)


def write() -> None:
    """Write both pages."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "modules.md").write_text(modules_page(), encoding="utf-8")
    (FOLDER / "rules.md").write_text(rules_page(), encoding="utf-8")


if __name__ == "__main__":
    write()
