"""The commands that run bugs of the catalogue: `reproduce`, `replay` and `measure`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kchaos.checkers.acts import Mode
from kchaos.harness.commands import cli_options as opt
from kchaos.harness.commands.cli_complete import cases_of_entry, entries, releases
from kchaos.harness.printable import printable

if TYPE_CHECKING:
    from kchaos.checkers.run_line import RunLine
    from kchaos.harness.run.runner import RunOptions


def _of_brokers(_: Any, __: Any, values: tuple[str, ...]) -> dict[int, str]:
    """Release of each broker, by its id."""
    kafkas: dict[int, str] = {}
    for value in values:
        broker, _, kafka = value.partition("=")
        if not broker.isdecimal() or not kafka:
            raise click.BadParameter(f"{value!r} is not like 1=2.0.1: a broker's id and a release")
        if int(broker) in kafkas:
            raise click.BadParameter(f"broker {broker} is named twice")
        kafkas[int(broker)] = kafka
    return kafkas


@click.command(
    cls=opt.Command,
    examples=(
        "kchaos reproduce KAFKA-6361 --kafka 1.1.1",
        "kchaos reproduce KAFKA-7128 --kafka 2.0.0 --kafka 2.0.1 --runs 3",
    ),
)
@click.argument("name", shell_complete=entries)
@click.option(
    "--kafka",
    "kafkas",
    multiple=True,
    metavar="RELEASE|PATH",
    shell_complete=releases,
    help="Release, distribution folder or .tgz; may be repeated. Default: the entry's own.",
)
@click.option(
    "--case",
    "cases",
    multiple=True,
    shell_complete=cases_of_entry,
    help="May be repeated. Default: all cases.",
)
@click.option(
    "--broker",
    "of_brokers",
    multiple=True,
    metavar="ID=RELEASE",
    callback=_of_brokers,
    help="What a single broker runs in place of --kafka, for a mixed cluster; may be repeated. All "
    "brokers speak the protocol of the oldest.",
)
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="Runs each.")
@click.option(
    "--protocol",
    "judged_as",
    metavar="RELEASE",
    help="The release whose rules a patched build is judged by.  "
    "[default: its own, or the nearest one that was published]",
)
@click.option(
    "--spark/--no-spark",
    default=None,
    help="Whether a Spark job judges all runs together at the end (not with --json).  "
    "[default: from 400 runs on, where Spark is installed]",
)
@opt.mode
@opt.properties_file
@opt.side_by_side
@opt.as_json
@opt.runs_directory
@opt.run_options
def reproduce(
    name: str,
    kafkas: tuple[str, ...],
    of_brokers: dict[int, str],
    cases: tuple[str, ...],
    runs: int,
    judged_as: str | None,
    mode: Mode | None,
    properties_file: Path | None,
    spark: bool | None,
    side_by_side: int | None,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Run NAME, a known bug, and prove what happened. Brokers are real.

    `kchaos list` has the names. NAME may be a file of Python that has an entry, or FILE::ENTRY
    where it has several.
    """
    from kchaos.clusters.releases import judging_release_of
    from kchaos.harness.campaign.campaign import results_of
    from kchaos.harness.campaign.cases import due_cases, play_cases
    from kchaos.harness.catalogue import entry_named
    from kchaos.harness.commands.judge_runs import spark_agrees, with_spark
    from kchaos.harness.commands.show import result_lines, table_text
    from kchaos.harness.exits import UNKNOWN, exit_code_for_lines
    from kchaos.harness.report.whose import last_words

    entry = entry_named(name)
    if judged_as is not None:
        judging_release_of(judged_as)
    say = opt.sayer()
    spark = not as_json and with_spark(spark, runs=runs, offline=options.offline, say=say)

    def done(_number: int, line: "RunLine") -> None:
        if as_json:
            return click.echo(json.dumps(line.to_json()))
        for text in result_lines(results_of(line)):
            say(text)

    due = due_cases(
        entry,
        cases=cases,
        kafkas=kafkas or entry.default_releases,
        of_brokers=of_brokers,
        runs=runs,
        judged_as=judged_as,
        mode=mode,
        properties=properties_file,
        options=options,
        say=say,
    )
    lines = play_cases(
        due,
        side_by_side=side_by_side or opt.default_side_by_side(),
        options=options,
        say=say,
        done=done,
    )
    code = exit_code_for_lines(lines)
    if as_json:
        return code
    paths = [Path(line.run) for line in lines if line.run]
    try:
        if spark and paths:
            say(f"Spark judges the {len(paths)} runs together")
            if not spark_agrees(paths, offline=options.offline, say=say):
                code = max(code, UNKNOWN)
    finally:
        click.echo(printable(table_text([*map(results_of, lines)])))
        for line in lines:
            if line.report is not None:
                click.echo(f"report: {printable(line.report)}")
        for words in last_words(line.run for line in lines):
            click.echo(printable(words))
    return code


@click.command(
    cls=opt.Command,
    examples=("kchaos replay kchaos-runs/latest", "kchaos replay scenario.json --json"),
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--typed", hidden=True, help="What the user typed, when kchaos calls itself.")
@opt.trust
@opt.as_json
@opt.runs_directory
@opt.run_options
def replay(run: Path, typed: str | None, trust: bool, as_json: bool, options: "RunOptions") -> int:
    """Run the scenario of a run, or of a scenario file, once more."""
    from kchaos.harness.campaign.campaign import InThisProcess, results_of
    from kchaos.harness.commands.show import result_lines
    from kchaos.harness.exits import exit_code_for_lines
    from kchaos.harness.report.whose import last_words
    from kchaos.harness.run.settings import named_kafkas, trusted_scenario

    scenario = trusted_scenario(run / "scenario.json" if run.is_dir() else run, trust=trust)
    say, command = opt.sayer(), tuple(json.loads(typed)) if typed else ()
    for kafka in (name for name in named_kafkas(scenario) if not name[:1].isdigit() or "/" in name):
        say(f"it starts the Kafka in {kafka}: Ctrl-C if that is none of yours")
    line = InThisProcess(options=replace(options, command=command), say=say).play(scenario)
    results = "\n".join([*result_lines(results_of(line)), *last_words([line.run])])
    click.echo(json.dumps(line.to_json()) if as_json else printable(results))
    return exit_code_for_lines([line])


@click.command(
    cls=opt.Command,
    examples=("kchaos measure KAFKA-6361 --runs 10", "kchaos measure --results measurements.jsonl"),
)
@click.argument("names", nargs=-1, shell_complete=entries)
@click.option(
    "--planted",
    is_flag=True,
    help="NAMES are planted bugs, by default all: each is hunted with random schedules, which run "
    "without it as well. kchaos list --planted has them.",
)
@click.option(
    "--kafka",
    "kafkas",
    multiple=True,
    metavar="RELEASE",
    help="With --planted: the releases to hunt on.  [default: all that a bug fits]",
)
@click.option(
    "--budget",
    "budget_s",
    type=opt.DURATION,
    help="With --planted: begin no run after so long, such as 30m.",
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    help="Runs of each case.  [default: 10, of KAFKA-6361 20; of a planted bug at most 4]",
)
@click.option(
    "--results",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
    help="File of JSON lines to add to.  [default: measurements.jsonl in --runs-dir, or "
    "planted.jsonl]",
)
@opt.side_by_side
@opt.runs_directory
@opt.run_options
def measure(
    names: tuple[str, ...],
    planted: bool,
    kafkas: tuple[str, ...],
    budget_s: float | None,
    runs: int | None,
    results: Path | None,
    side_by_side: int | None,
    options: "RunOptions",
) -> int:
    """Run entries many times unattended, resuming after a stop.

    Every run appends a line to the results file; the table made of it is written beside it. The
    seconds of a run grow with --side-by-side.
    """
    from kchaos.harness.campaign.cases import RESULTS
    from kchaos.harness.campaign.cases import measure as measure_entries
    from kchaos.harness.exits import AS_EXPECTED, exit_code_for_lines

    if not planted and (kafkas or budget_s is not None):
        raise click.UsageError("--kafka and --budget go with --planted")
    if planted:
        from kchaos.harness.campaign import planted as bench

        file = results or options.runs_directory / bench.RESULTS
        bench.hunt(
            names,
            kafkas=kafkas,
            runs=runs or bench.RUNS,
            budget_s=budget_s,
            results=file,
            options=options,
            say=opt.sayer(),
        )
        click.echo(file.with_suffix(".md").read_text(), nl=False)
        return AS_EXPECTED
    lines = measure_entries(
        names,
        runs=runs,
        results=results or options.runs_directory / RESULTS,
        side_by_side=side_by_side or opt.default_side_by_side(),
        options=options,
        say=opt.sayer(),
    )
    return exit_code_for_lines(lines)
