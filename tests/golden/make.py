"""Play and store golden runs: `python -m tests.golden.make RELEASE...`.

One run of `tests.golden.scenario` is played on real brokers for each release, and stored with what
it is judged to be. A golden run that exists is played once more only with `--again`. With
`--expected` nothing is played: what is written down about the stored runs is replaced by what the
present model says; read the difference before it is committed. With `--border` a run that was
played already is stored among those at the borders of rules, with `--setting` among those with
settings that the model follows, with `--other` among those with evidence that the scenario has not,
with `--entry` as the stored run of its entry. With `--kraft` a scenario of
`tests.golden.kraft_scenarios` is played and stored. With `--case` a case of `tests/cases` is played
on its newest release and stored beside the case.
"""

import argparse
import tempfile
from pathlib import Path

import kchaos as k
from tests.cases import plays
from tests.golden.kraft_scenarios import SCENARIOS, kraft_scenario
from tests.golden.scenario import scenario_of
from tests.golden.stored import (
    BORDERS,
    ENTRIES,
    KRAFT,
    OTHERS,
    RELEASES,
    RUNS,
    SETTINGS,
    said_of,
    store,
    unpacked,
    write_expected,
)


def main() -> None:
    """Store what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.golden.make")
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help="default: all of them")
    parser.add_argument("--again", action="store_true", help="replace golden runs that exist")
    parser.add_argument("--expected", action="store_true", help="judge the stored runs again")
    parser.add_argument("--border", nargs=2, metavar=("NAME", "RUN"), help="store this run")
    parser.add_argument("--setting", nargs=2, metavar=("NAME", "RUN"), help="store this run")
    parser.add_argument("--other", nargs=2, metavar=("NAME", "RUN"), help="store this run")
    parser.add_argument("--entry", nargs=2, metavar=("NAME", "RUN"), help="store this run")
    parser.add_argument("--kraft", action="append", choices=SCENARIOS, help="play and store it")
    parser.add_argument("--case", action="append", metavar="NAME", help="play it and store the run")
    parser.add_argument("--runs-dir", type=Path, default=Path("kchaos-runs"))
    given = parser.parse_args()
    for stored, runs in (
        (given.border, BORDERS),
        (given.setting, SETTINGS),
        (given.other, OTHERS),
        (given.entry, ENTRIES),
    ):
        if stored:
            name, run = stored
            store(k.RunDirectory.open(Path(run)), name, runs=runs, again=given.again)
            return
    for name in given.kraft or ():
        options = k.RunOptions(runs_directory=given.runs_dir)
        run = k.play(kraft_scenario(name), options=options, say=print)
        store(run, name, runs=KRAFT, again=given.again)
    if given.kraft:
        return
    if given.case:
        for name in given.case:
            plays.store_case(name, given.runs_dir, again=given.again)
            print(f"case {name} is stored")
        return
    releases = given.releases or RELEASES
    existing = [release for release in releases if (RUNS / release).exists()]
    if existing and not (given.again or given.expected):
        parser.error(f"{', '.join(existing)} exist; say --again to play them once more")
    for release in releases:
        if given.expected:
            _judge_again(release)
        else:
            _play(release, given.runs_dir, again=given.again)


def _play(release: str, runs_directory: Path, *, again: bool) -> None:
    options = k.RunOptions(runs_directory=runs_directory)
    run = k.play(scenario_of(release), options=options, say=lambda text: print(f"  {text}"))
    store(run, release, again=again)
    size = sum(file.stat().st_size for file in (RUNS / release).iterdir())
    print(f"{release}: {size} bytes in {RUNS / release}")


def _judge_again(release: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = unpacked(release, Path(folder))
        write_expected(release, said_of(run, k.judge(run)))
    print(f"{release}: expected.json is what the model says now")


if __name__ == "__main__":
    main()
