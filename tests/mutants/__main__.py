"""Change the evidence of stored runs in every known way, and see what the judge believes.

`python -m tests.mutants`: every kind over the golden runs of all releases; `--release` and `--kind`
choose, `--in-turn` changes each run in its share of ways, `--seed` draws other places. With
`--table` the table in docs/mutants.md is written anew. Exit code 1 if a change is believed that is
not in `tests.mutants.survivors`, or if a harmless one raises an alarm.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.golden.stored import KRAFT_NAMES, OTHER_NAMES, RELEASES, unpacked
from tests.mutants.kinds import KINDS
from tests.mutants.suite import Judged, in_turn, judged_mutants, kinds_named, share, wrong
from tests.mutants.survivors import OF_TIERED, SURVIVORS

_TABLE = Path(__file__).parents[2] / "docs" / "mutants.md"
_MARK = "<!-- table -->\n"


def main() -> int:
    """Do what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.mutants")
    names = (*RELEASES, *OTHER_NAMES, *KRAFT_NAMES)
    parser.add_argument("--release", action="append", choices=names, help="default: all")
    parser.add_argument("--kind", default="", help="a part of the names of kinds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--in-turn", action="store_true", help="each kind over one run only that has such"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--thorough", action="store_true", help="search every run to its end")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    releases = given.release or list(names)
    kinds = kinds_named(given.kind)
    wanted = in_turn(releases, kinds) if given.in_turn else [(item, kinds) for item in releases]
    jobs = [(item, [kind.name for kind in kinds], given) for item, kinds in wanted]
    with ProcessPoolExecutor(given.processes) as pool:
        judged = []
        for (release, _, _), each in zip(jobs, pool.map(_of_release, jobs), strict=True):
            judged += each
            told = [f"{release}: {len(each)} mutants", *wrong(each)]
            print("\n  ".join(told), file=sys.stderr, flush=True)
    problems = wrong(judged)
    if not given.kind and not given.release and not given.in_turn:
        believed = {mutant.kind for mutant in judged if mutant.is_believed}
        problems += [
            f"{name}: is in the list, and always noticed"
            for name in SURVIVORS
            if name not in believed
        ]
    print(_summary(judged))
    print("\n".join(problems) or "nothing was believed that is not in the list, and no false alarm")
    if given.table:
        text = _TABLE.read_text().partition(_MARK)[0]
        _TABLE.write_text(text + _MARK + _table(judged))
    return 1 if problems else 0


def _of_release(job: tuple[str, Sequence[str], argparse.Namespace]) -> list[Judged]:
    release, names, given = job
    kinds = [KINDS[name] for name in names]
    with tempfile.TemporaryDirectory() as folder:
        run = unpacked(release, Path(folder))
        return list(
            judged_mutants(run, kinds, Path(folder), seed=given.seed, is_thorough=given.thorough)
        )


def _summary(judged: Sequence[Judged]) -> str:
    kinds = {mutant.kind for mutant in judged}
    believed = sum(mutant.is_believed and not KINDS[mutant.kind].is_harmless for mutant in judged)
    return (
        f"{len(judged)} mutants of {len(kinds)} kinds over "
        f"{len({mutant.run for mutant in judged})} runs: "
        f"{believed} believed, all but those below with a reason in tests/mutants/survivors.py\n"
        f"{_flips(judged)}"
    )


def _flips(judged: Sequence[Judged]) -> str:
    of_unsafe = [
        mutant for mutant in judged if mutant.is_of_unsafe and not KINDS[mutant.kind].is_harmless
    ]
    flipped = [each for each in of_unsafe if each.is_flipped]
    named = "".join(f"\n  {each.kind} ({each.run}, {each.place})" for each in flipped)
    times = share(len(flipped), len(of_unsafe))
    return f"unsafe runs whose mutants are safe: {times}{named}"


def _table(judged: Sequence[Judged]) -> str:
    by_area: dict[str, list[Judged]] = defaultdict(list)
    for mutant in judged:
        by_area[KINDS[mutant.kind].area].append(mutant)
    lines = [
        "| evidence | kinds | mutants | finding | unknown | hides | invents | unread | harmless |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for area, each in sorted(by_area.items()):
        changing = [refusal for refusal in each if not KINDS[refusal.kind].is_harmless]
        refused = [refusal for refusal in changing if not refusal.is_believed]
        unknown = sum(refusal.is_unknown for refusal in refused)
        numbers = (
            len({refusal.kind for refusal in each}),
            len(each),
            len(refused) - unknown,
            unknown,
            *(
                sum(refusal.believed_as == how for refusal in changing)
                for how in ("hides", "invents", "unread")
            ),
            len(each) - len(changing),
        )
        lines.append(f"| {area} | {' | '.join(map(str, numbers))} |")
    lines += ["", _flips(judged) + "."]
    lines += ["", "Believed, and why:", "", "| change | of | reason |", "|---|---|---|"]
    for name, reason in {**OF_TIERED, **SURVIVORS}.items():
        of = [mutant for mutant in judged if mutant.kind == name]
        times = sum(refusal.is_believed for refusal in of)
        if times:
            lines.append(f"| {name} | {times} of {len(of)} | {reason} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
