"""`kchaos nightly`: random schedules until a budget is used up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kchaos.checkers.acts import Mode
from kchaos.checkers.store import Place, StoredPlace, stored_place_of
from kchaos.harness.commands import cli_options as opt

if TYPE_CHECKING:
    from kchaos.harness.run.runner import RunOptions


def _mix(text: str) -> tuple[str, float]:
    name, _, weight = text.partition("=")
    if name not in opt.MIX_NAMES:
        raise ValueError(f"no mix is named {name!r}; known: {', '.join(opt.MIX_NAMES)}")
    if not (weight or "1").isdecimal():
        raise ValueError(f"{text!r}: a weight is a whole number, as in walks=3")
    return name, float(weight or "1")


def _shard(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ValueError(f"{text!r} is no part such as 2/5")
    return int(part), int(parts)


def _keep(text: str) -> int | None:
    """Return the number of clean runs to keep; None for all."""
    if text == "all":
        return None
    if text != "failed" and not text.isdecimal():
        raise ValueError(f"{text!r} is none of failed, all and a number")
    return 0 if text == "failed" else int(text)


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos nightly --kafka 2.8.2 --for 2h",
        "kchaos nightly --kafka ./build --runs 40 --baseline last-night --fail-on new",
    ),
)
@opt.kafkas_of_schedules
@click.option(
    "--for",
    "for_s",
    type=opt.DURATION,
    help="How long, such as 2h or 90m. A run that may not finish in time is not started.",
)
@click.option("--runs", type=click.IntRange(1), help="How many schedules in all.")
@click.option(
    "--output",
    type=opt.LocalPath(file_okay=False, path_type=Path),
    default=Path("kchaos-night"),
    show_default=True,
    help="The night's folder, for runs, lines and summary. A night that is there goes on.",
)
@opt.baseline
@opt.fail_on
@click.option(
    "--keep",
    type=opt.ReadBy("failed|all|N", _keep),
    default="failed",
    show_default=True,
    help="Which good runs stay on disk: none of them (failed), all, or the newest N. Failed runs "
    "always stay.",
)
@click.option(
    "--max-size",
    "max_bytes",
    type=opt.ReadBy("SIZE", opt.bytes_in),
    help="What runs may take on disk, such as 2G. The last run that shows a bug is never deleted; "
    "if there is no room for it, the night ends.",
)
@click.option(
    "--shard",
    type=opt.ReadBy("PART/PARTS", _shard),
    default="1/1",
    help="Run only these seeds, such as 2/5; needs --seed, the same for all parts.",
)
@click.option("--seed", type=opt.SEED, help="Of the first schedules.  [default: any]")
@click.option(
    "--mix",
    "mixes",
    type=opt.ReadBy("MIX[=WEIGHT]", _mix),
    multiple=True,
    help="May be repeated.  [default: mixed=4, walks=2, and each other one but rare, "
    "upgrades, slow-disks and wide-walks]",
)
@click.option(
    "--corpus",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
    help="Keep schedules that came to a new or rare decision point in this file, which nights may "
    "share, and run mutants of them.",
)
@opt.plant
@opt.acts_of_schedules
@opt.brokers
@opt.properties_file
@opt.gates_of_schedules
@opt.side_by_side
@click.option(
    "--tables",
    "tables_folder",
    type=opt.PlaceType(file_okay=False),
    help="Add the runs to the Parquet tables in this folder, as kchaos tables does; it may be "
    "s3://BUCKET/PREFIX.",
)
@click.option(
    "--store",
    type=opt.ReadBy("s3://BUCKET/PREFIX", stored_place_of),
    help="In the end put what stays of the night on an object store, in a place of its own: lines, "
    "summary, and a pack of each run that is kept.",
)
@opt.as_json
@opt.mode
@opt.run_options
def nightly(
    kafkas: tuple[str, ...],
    for_s: float | None,
    runs: int | None,
    output: Path,
    baseline: Place | None,
    fail_on: tuple[str, ...],
    keep: int | None,
    max_bytes: int | None,
    shard: tuple[int, int],
    seed: int | None,
    mixes: tuple[tuple[str, float], ...],
    corpus: Path | None,
    planted: str,
    brokers: int | None,
    properties_file: Path | None,
    steps: int,
    gates: bool,
    side_by_side: int | None,
    tables_folder: Place | None,
    store: StoredPlace | None,
    as_json: bool,
    mode: Mode | None,
    options: "RunOptions",
) -> int:
    """Run random schedules until a budget is used up. A summary is written.

    Each seed runs on each Kafka. A run's line stays in night.jsonl when the run is deleted.
    Ctrl-C ends the night with what there is. Exit codes: 0 no run fails, 1 one does, 2 what fails
    is only unknown, or no run is known; 130 after Ctrl-C.
    """
    from kchaos.harness.campaign.night import Limits, Night, seed_in
    from kchaos.harness.campaign.schedules import DrawnSchedules, any_seed
    from kchaos.harness.campaign.summary_files import exit_code_of_summary

    if for_s is None and runs is None:
        raise click.UsageError("say how long with --for 2h, or how many with --runs 100")
    if shard[1] > 1 and seed is None:
        raise click.UsageError("--shard needs --seed: the parts of a night share its seed")
    if seed is None:
        seed = seed_in(output)
    night = Night(
        plan=DrawnSchedules(
            kafkas=kafkas,
            seed=any_seed() if seed is None else seed,
            mixes=dict(mixes) or _usual_mixes(),
            steps=steps,
            gated=gates,
            shard=shard,
            mode=mode,
            planted=planted,
            properties=properties_file,
            brokers=brokers,
        ),
        folder=output,
        limits=Limits(for_s=for_s, runs=runs, keep=keep, max_bytes=max_bytes),
        baseline=baseline,
        fail_on=fail_on,
        corpus=corpus,
        tables=tables_folder,
        store=store,
        say=opt.sayer(),
        done=lambda line: click.echo(json.dumps(line.to_json())) if as_json else None,
    )
    made = night.play(
        side_by_side=side_by_side or opt.default_side_by_side(),
        options=replace(options, runs_directory=output),
    )
    return exit_code_of_summary(made)


def _usual_mixes() -> dict[str, float]:
    """Return the mixes of a night without `--mix`, each with its weight."""
    # Slow disks need FUSE, two others another release; wide walks take long to draw.
    seldom = ("rare", "upgrades", "slow-disks", "wide-walks")
    usual = {name: 1.0 for name in opt.MIX_NAMES if name not in seldom}
    return usual | {"mixed": 4.0, "walks": 2.0}
