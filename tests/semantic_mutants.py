"""Mutants of kchaos's own checkers: one condition is changed at a time, and somebody must notice.

Run `make semantic-mutants`, or `python -m tests.semantic_mutants --number 20 --seed 1`. Mutants are
drawn of the model, the rules and the reader of segments: a comparison turned or off by one, a part
of a condition dropped, `and` for `or`, a condition that always or never holds, a filter dropped,
`min` for `max`, a bool turned. Each is judged by stored runs, whose answers must change, and then
by the tests that import its module. `--at FILE:LINE` takes all mutants of one line; `--tests-only`
leaves the stored runs out.

A mutant that survives is a condition that nothing holds, or it is equal to what was there. Printed
is a line for each, and how many were noticed with the 95 % interval.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("checkers/model", "checkers/rules", "checkers/segments")
STUDIED = "checkers/model/explore"
"""Of the explorer, which judges no run."""
RUNS = (
    *("runs/1.1.1", "runs/3.9.1", "runs/2.8.2", "runs/0.10.2.2", "runs/0.11.0.3"),
    *("others/forged-2.0.1", "others/tiered-3.9.1", "others/compacted-2.8.2"),
    *("clients/3.9.1-transactions", "hard_to_follow/2.8.2-resumed", "entries/KAFKA-14010"),
)
"""Stored runs that a mutant is judged by, one after the other."""
_SECONDS = 600
_NEAREST = 8
_NOT_SLOW = "not cluster and not spark and not docker and not slow"
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file.

    Attributes:
        file: Below the root of the repository.
        line: From 1 on.
        change: The old expression and the new one.
        source: The file's whole new text.
    """

    file: str
    line: int
    change: str
    source: str


def mutants_of(file: str, text: str) -> Iterator[Mutant]:
    """Yield each mutant of a module, in the order of its text."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = text.encode()
    for node in ast.walk(ast.parse(text)):
        for old, new in _changes(node):
            first = starts[old.lineno - 1] + old.col_offset
            was = ast.get_source_segment(text, old) or ""
            last = first + len(was.encode())
            put = f"({ast.unparse(new)})"
            yield Mutant(
                file=file,
                line=old.lineno,
                change=f"{' '.join(was.split())} -> {put[1:-1]}",
                source=(raw[:first] + put.encode() + raw[last:]).decode(),
            )


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield expressions in or at a node, each with what is put in its place."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            turned = _TURNED[type(operator)]()
            yield node, ast.Compare(left=left, ops=[turned], comparators=[right])
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield node, ast.BoolOp(op=other, values=values)
            for dropped in values:
                kept = [value for value in values if value is not dropped]
                yield node, kept[0] if len(kept) == 1 else ast.BoolOp(op=operator, values=kept)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.If(test=test) | ast.IfExp(test=test):
            for always in (True, False):
                yield test, ast.Constant(value=always)
        case ast.comprehension(ifs=ifs):
            for test in ifs:
                yield test, ast.Constant(value=True)
        case ast.Call(func=ast.Name(id=name) as function) if name in _EXTREMES:
            yield function, ast.Name(id=_EXTREMES[name])
        case ast.Constant(value=bool() as value):
            yield node, ast.Constant(value=not value)


def all_mutants(root: Path) -> list[Mutant]:
    """Return every mutant of the rooms, by file."""
    files = sorted(file for room in ROOMS for file in (root / room).rglob("*.py"))
    return [
        mutant
        for file in files
        if STUDIED not in str(file)
        for mutant in mutants_of(str(file.relative_to(root)), file.read_text())
    ]


def differs(name: str) -> str:
    """Return how a stored run is judged in another way than when it was stored, or ""."""
    from kchaos.checkers.judge import judge
    from tests.golden.stored import expected_of, said_of, unpacked

    folder = Path(__file__).with_name("golden") / name.split("/")[0]
    with tempfile.TemporaryDirectory() as temporary:
        run = unpacked(name.split("/")[1], Path(temporary), runs=folder)
        said = said_of(run, judge(run))
    expected = expected_of(name.split("/")[1], runs=folder)
    return ", ".join(key for key in expected if said[key] != expected[key])


class _Tree:
    """A copy of the repository in which one file at a time is a mutant's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for entry in ROOT.iterdir():
            if entry.name == "checkers":
                shutil.copytree(entry, folder / entry.name, ignore=shutil.ignore_patterns("*.pyc"))
            elif entry.is_symlink() or entry.name == "kchaos":
                shutil.copytree(entry, folder / entry.name, symlinks=True)
            elif not entry.name.startswith("."):
                (folder / entry.name).symlink_to(entry)

    def noticed_by(self, mutant: Mutant, runs: Sequence[str]) -> str:
        """Return which run or test notices a mutant; "" if none does."""
        file = self._folder / mutant.file
        original = file.read_text()
        file.write_text(mutant.source)
        try:
            for name in runs:
                said = self._run("-m", "tests.semantic_mutants", "--judge", name)
                if said:
                    return f"{name}: {said}"
            nearest = near_tests(mutant.file)
            options = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", _NOT_SLOW)
            return self._run("-m", "pytest", *options, *nearest)
        finally:
            file.write_text(original)

    def _run(self, *arguments: str) -> str:
        """Return the last line of what fails, or ""."""
        environment = os.environ | {"PYTHONPATH": str(self._folder), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=self._folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {_SECONDS} s"
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        failed = [line for line in lines if line.startswith("FAILED")]
        return "" if done.returncode in (0, 5) else (failed or lines or ["failed"])[-1][:120]


def near_tests(file: str) -> list[str]:
    """Return the test modules that import a module, those that import least else first."""
    module = "kchaos." + file.removesuffix(".py").replace("/", ".")
    parent, _, name = module.rpartition(".")
    near: list[tuple[int, str]] = []
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        text = test.read_text()
        if module in text or (f"from {parent} import" in text and name in text):
            near.append((text.count("import "), str(test.relative_to(ROOT))))
    nearest = [name for _, name in sorted(near)[:_NEAREST]]
    return list(dict.fromkeys(["tests/checkers/test_survivors.py", *nearest]))


def main() -> int:
    """Print what becomes of each mutant; 1 if any survives."""
    parser = argparse.ArgumentParser(description="Mutants of kchaos's own checkers.")
    parser.add_argument("--number", type=int, default=400, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at", action="append", default=[], metavar="FILE:LINE")
    parser.add_argument("--tests-only", action="store_true", help="no stored runs")
    parser.add_argument("--save", type=Path, help="append a JSON line for each")
    parser.add_argument("--judge", metavar="RUN", help="judge one stored run (for its own use)")
    given = parser.parse_args()
    if given.judge:
        said = differs(given.judge)
        print(said)
        return bool(said)
    mutants = all_mutants(ROOT)
    if given.at:
        chosen = [each for each in mutants if f"{each.file}:{each.line}" in given.at]
    else:
        chosen = random.Random(given.seed).sample(mutants, min(given.number, len(mutants)))
    return _judged(chosen, () if given.tests_only else RUNS, len(mutants), given.save)


def _judged(mutants: Sequence[Mutant], runs: Sequence[str], of: int, save: Path | None) -> int:
    from tests.mutants.suite import share

    survivors = 0
    with tempfile.TemporaryDirectory(prefix="kchaos-semantic-mutants-") as folder:
        tree = _Tree(Path(folder))
        for mutant in mutants:
            by = tree.noticed_by(mutant, runs)
            survivors += not by
            row = {"file": mutant.file, "line": mutant.line, "change": mutant.change, "by": by}
            print(f"{mutant.file}:{mutant.line} {mutant.change}: {by or 'SURVIVES'}", flush=True)
            if save is not None:
                with save.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    print(f"noticed: {share(len(mutants) - survivors, len(mutants))}; there are {of} mutants")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
