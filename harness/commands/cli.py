"""The command line. Everything heavy is imported inside the command that needs it."""

import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kchaos.checkers.acts import Mode
from kchaos.checkers.store import Place
from kchaos.harness.commands.cli_complete import cases_of_entry, entries, releases
from kchaos.harness.commands.cli_machine import add_machine_commands
from kchaos.harness.commands.cli_nights import add_night_commands
from kchaos.harness.commands.cli_options import (
    RUNS_DIRECTORY,
    LocalPath,
    PlaceType,
    as_json,
    default_side_by_side,
    has_colour,
    mode,
    offline,
    own_parts,
    run_options,
    runs_directory,
    sayer,
    side_by_side,
    trust,
)
from kchaos.harness.commands.cli_player import add_player_commands
from kchaos.harness.commands.cli_releases import bisect, versions
from kchaos.harness.commands.cli_upgrade import upgrade
from kchaos.harness.printable import printable

COMMANDS = "kchaos.commands"
"""Entry points: by the name of a command, the command."""

if TYPE_CHECKING:
    from kchaos.harness.run.runner import RunOptions


_FIRST = (
    *("doctor", "list", "show", "reproduce", "chaos", "nightly", "upgrade", "up", "replay"),
    *("report", "runs", "summary", "shrink", "bisect", "pack"),
)
"""The commands that `kchaos --help` has first."""


class _Commands(click.Group):
    """The commands of kchaos, and those of other packages by their entry points."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write first the commands of everybody's work, in its order, then the rest."""
        rest = [name for name in self.list_commands(context) if name not in _FIRST]
        for title, names in (("Commands", _FIRST), ("More", rest)):
            with formatter.section(title):
                commands = [self.get_command(context, name) for name in names]
                width = max(map(len, names))
                formatter.write_dl(
                    [
                        (f"{command.name:<{width}}", command.get_short_help_str(80 - width - 4))
                        for command in commands
                        if command is not None
                    ]
                )

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all of them."""
        return sorted({*super().list_commands(context), *_commands_of_packages()})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of that name; that of another package is imported now."""
        own = super().get_command(context, name)
        point = None if own is not None else _commands_of_packages().get(name)
        if point is None:
            return own
        try:
            command: click.Command = point.load()
        except ImportError as error:
            raise click.UsageError(
                f"the command {name} ({point.value}) cannot be imported: {error}; repair or remove "
                "the package that brings it"
            ) from error
        return command


@cache
def _commands_of_packages() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=COMMANDS)}


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80}
)
@click.version_option(package_name="kchaos")
def cli() -> None:
    """Run real Kafka clusters, break their replication, judge them by their bytes.

    \b
    Begin with:
      kchaos doctor                                  what this machine can do
      kchaos list                                    the bugs there are
      kchaos reproduce KAFKA-6361 --kafka 1.1.1      play a bug and prove it
      kchaos report --open                           look at the newest run

    \b
    Exit codes: 0 as expected, 1 a finding that was not expected, 2 unknown;
    64 usage, 69 this machine cannot, 70 a defect of kchaos, 130 interrupted.
    """


@cli.command("list")
@click.argument("words", nargs=-1, metavar="[WORD...]")
@click.option(
    "--measured",
    type=LocalPath(dir_okay=False, path_type=Path),
    default=Path(RUNS_DIRECTORY) / "measurements.jsonl",
    show_default=True,
    help="Results of kchaos measure: they say when an entry was last seen.",
)
@own_parts
@as_json
def list_entries(
    words: tuple[str, ...], measured: Path, parts: tuple[str, ...], as_json: bool
) -> None:
    """Show the known bugs, and where and when each shows.

    With WORDs it shows only bugs that have each of them in name, title, story, source or
    findings, such as: kchaos list committed-loss
    """
    from kchaos.harness.catalogue import entries_there
    from kchaos.harness.commands.measure import last_seen, results_in
    from kchaos.harness.commands.show import MATRIX_KEY, last_seen_lines, matrix_lines, title_lines
    from kchaos.harness.run.own_parts import broken_parts, parts_named

    entries = [each for each in entries_there(map(parts_named, parts)).values() if each.has(words)]
    for why in broken_parts():
        click.echo(f"kchaos: warning: {printable(why)}", err=True)
    seen = last_seen(results_in(measured))
    if words and not entries:
        raise click.UsageError(f"no known bug has {' and '.join(words)}: try fewer words")
    if as_json:
        for entry in entries:
            click.echo(json.dumps(_entry_json(entry) | {"last_seen": seen.get(entry.name)}))
        return
    if words:
        click.echo("\n".join(line for entry in entries for line in title_lines(entry)))
    else:
        click.echo("\n".join(matrix_lines(entries)) + f"\n\n{MATRIX_KEY}")
    click.echo("kchaos show NAME tells the story of a bug")
    click.echo("\n".join(last_seen_lines(entries, seen)))


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=entries)
@as_json
def show(names: tuple[str, ...], as_json: bool) -> None:
    """Tell the story of NAME, a known bug. Its cases, releases and source are told too.

    `kchaos list` has the names. NAME may be a file of Python that has an entry.
    """
    from kchaos.harness.catalogue import entry_named
    from kchaos.harness.commands.show import entry_lines

    shown = [entry_named(name) for name in names]
    for entry in shown:
        text = json.dumps(_entry_json(entry)) if as_json else "\n".join(entry_lines(entry)) + "\n"
        click.echo(text)


def _entry_json(entry: Any) -> dict[str, Any]:
    expected = {
        f"{case} {release}": expectation.to_json()
        for (case, release), expectation in entry.expectations.items()
    }
    return {
        "entry": entry.name,
        "title": entry.title,
        "cases": dict(entry.cases),
        "expected": expected,
        "source": entry.source,
    }


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


@cli.command()
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
@mode
@side_by_side
@as_json
@runs_directory
@run_options
def reproduce(
    name: str,
    kafkas: tuple[str, ...],
    of_brokers: dict[int, str],
    cases: tuple[str, ...],
    runs: int,
    judged_as: str | None,
    mode: Mode | None,
    spark: bool | None,
    side_by_side: int | None,
    as_json: bool,
    options: "RunOptions",
) -> int:
    """Play NAME, a known bug, and prove what happened. Brokers are real.

    `kchaos list` has the names. NAME may be a file of Python that has an entry, or FILE::ENTRY
    where it has several.
    """
    from kchaos.clusters.releases import judging_release_of
    from kchaos.harness.catalogue import entry_named
    from kchaos.harness.commands.exits import UNKNOWN, exit_code_for_lines
    from kchaos.harness.commands.judge_runs import with_spark
    from kchaos.harness.commands.reproduce import PlayedCase, reproduce
    from kchaos.harness.commands.show import result_lines

    entry = entry_named(name)
    if judged_as is not None:
        judging_release_of(judged_as)
    say = sayer()
    spark = not as_json and with_spark(spark, runs=runs, offline=options.offline, say=say)

    def done(run_played: PlayedCase) -> None:
        if as_json:
            return click.echo(json.dumps(run_played.line))
        for line in result_lines(run_played.results):
            say(line)

    played = reproduce(
        entry,
        cases=cases,
        kafkas=kafkas or entry.default_releases,
        of_brokers=of_brokers,
        runs=runs,
        judged_as=judged_as,
        mode=mode,
        side_by_side=side_by_side or default_side_by_side(),
        options=options,
        say=say,
        done=done,
    )
    code = exit_code_for_lines(each.line for each in played)
    if as_json:
        return code
    try:
        if spark and not _agrees_with_spark(played, offline=options.offline, say=say):
            code = max(code, UNKNOWN)
    finally:
        _print_table(played)
    return code


@cli.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--typed", hidden=True, help="What the user typed, when kchaos calls itself.")
@trust
@as_json
@runs_directory
@run_options
def replay(run: Path, typed: str | None, trust: bool, as_json: bool, options: "RunOptions") -> int:
    """Play the scenario of a run, or of a scenario file, once more."""
    from kchaos.harness.commands.exits import exit_code_for_lines
    from kchaos.harness.commands.reproduce import judged
    from kchaos.harness.commands.show import result_lines
    from kchaos.harness.run.runner import play
    from kchaos.harness.run.scenario import read_scenario
    from kchaos.harness.run.settings import named_kafkas, require_trust

    file = run / "scenario.json" if run.is_dir() else run
    scenario = read_scenario(file, trusted=trust)
    if not trust:
        require_trust(scenario, file)
    say, command = sayer(), tuple(json.loads(typed)) if typed else ()
    options = replace(options, command=command)
    for kafka in (name for name in named_kafkas(scenario) if not name[:1].isdigit() or "/" in name):
        say(f"it starts the Kafka in {kafka}: Ctrl-C if that is none of yours")
    played = judged(play(scenario, options=options, say=say), say)
    line = played.line
    click.echo(json.dumps(line) if as_json else printable("\n".join(result_lines(played.results))))
    return exit_code_for_lines([line])


@cli.command()
@click.argument("runs", nargs=-1, type=PlaceType())
@click.option(
    "--history",
    "histories",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A history of clients in Jepsen's form, history.edn or the same as JSON; may be repeated.",
)
@click.option("--master", help="Spark master, such as local[4] or spark://host:7077.")
@click.option(
    "--spark/--no-spark",
    default=None,
    help="Spark, or plain Python, which judges one run in seconds.  "
    "[default: Spark from 400 runs on, where it is installed, or with --master or --output]",
)
@click.option(
    "--output",
    type=PlaceType(),
    help="Folder to make for Spark's Parquet files; it may be s3://BUCKET/PREFIX.  [default: "
    "judgements-spark/NNNN beside the first run]",
)
@as_json
@offline
def judge(
    runs: tuple[Place, ...],
    histories: tuple[Path, ...],
    master: str | None,
    spark: bool | None,
    output: Place | None,
    as_json: bool,
    offline: bool,
) -> int:
    """Judge run directories again, with Spark or in plain Python.

    RUNS are run directories, or folders of them; or packs on an object store, s3://BUCKET/PREFIX.
    Evidence and earlier judgements are not changed.
    A history has no replicas: what clients were told is judged for Jepsen's anomalies.
    """
    from kchaos.checkers.histories.judgement import judge_history
    from kchaos.harness.commands.exits import exit_code_for_histories, exit_code_for_lines
    from kchaos.harness.commands.judge_runs import judge_paths
    from kchaos.harness.commands.show import history_lines, line_lines

    if bool(runs) is bool(histories):
        raise click.UsageError("give run directories, or --history FILE for histories of clients")
    if (histories or spark is False) and (master is not None or output is not None):
        raise click.UsageError(
            "--master and --output are Spark's, which judges no histories: leave them out"
            if histories
            else "--master and --output are Spark's: leave them out, or --no-spark"
        )
    if histories:
        judged = [judge_history(file) for file in histories]
        for run in judged:
            text = json.dumps(run.to_json()) if as_json else "\n".join(history_lines(run))
            click.echo(text if as_json else printable(text))
        return exit_code_for_histories(run.valid for run in judged)

    def told() -> Iterator[dict[str, Any]]:
        for line in judge_paths(
            runs, spark=spark, master=master, output=output, offline=offline, say=sayer()
        ):
            click.echo(json.dumps(line) if as_json else printable("\n".join(line_lines(line))))
            yield line

    return exit_code_for_lines(told())


@cli.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--text", is_flag=True, help="Print it instead, 80 columns wide.")
@click.option("--open", "opened", is_flag=True, help="Show the page in a browser.")
@runs_directory
def report(run: Path | None, text: bool, opened: bool, runs_dir: Path) -> None:
    """Write the HTML page of RUN, by default the newest. It is told where that is."""
    if text and opened:
        raise click.UsageError("--text prints the report and --open shows it: give either")
    from kchaos.checkers.run_directory import RunDirectory
    from kchaos.harness.commands.runs import newest_run
    from kchaos.harness.report import text_report, write_report

    directory = RunDirectory.open(run or newest_run(runs_dir))
    if text:
        click.echo(text_report(directory, width=80, colour=has_colour()))
        return
    page = write_report(directory)
    click.echo(str(page))
    if opened:
        click.launch(str(page))


@cli.command()
@runs_directory
@as_json
def runs(runs_dir: Path, as_json: bool) -> None:
    """Show the runs that are there, the newest first. Each has its verdict."""
    from kchaos.harness.commands.runs import run_lines, runs_there

    there = runs_there(runs_dir)
    if as_json:
        for run in there:
            click.echo(json.dumps(run.to_json()))
    else:
        click.echo(printable("\n".join(run_lines(there))))


@cli.command()
@click.argument("names", nargs=-1, shell_complete=entries)
@click.option(
    "--runs", type=click.IntRange(1), help="Runs of each case.  [default: 10, of KAFKA-6361 20]"
)
@click.option(
    "--results",
    type=LocalPath(dir_okay=False, path_type=Path),
    help="File of JSON lines to add to.  [default: measurements.jsonl in --runs-dir]",
)
@side_by_side
@runs_directory
@run_options
def measure(
    names: tuple[str, ...],
    runs: int | None,
    results: Path | None,
    side_by_side: int | None,
    options: "RunOptions",
) -> int:
    """Play entries many times unattended; go on where it stopped.

    Every run appends a line to the results file; the table made of it is written beside it. The
    seconds of a run grow with --side-by-side.
    """
    from kchaos.harness.commands.measure import measure as measure_entries

    return measure_entries(
        names,
        runs=runs,
        results=results,
        side_by_side=side_by_side or default_side_by_side(),
        options=options,
        say=sayer(),
    )


cli.add_command(versions)
cli.add_command(bisect)
cli.add_command(upgrade)
add_player_commands(cli)
add_night_commands(cli)
add_machine_commands(cli)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code and never raise."""
    from kchaos.clusters.errors import explained
    from kchaos.harness.commands.exits import (
        INTERNAL,
        INTERRUPTED,
        USAGE,
        exit_code_of,
        machine_error_in,
        refusal_text,
    )

    try:
        _require_working_directory()
        code = cli.main(args=list(arguments), prog_name="kchaos", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as done:
        # click leaves so after it has answered a shell that completes a word.
        return done.code if isinstance(done.code, int) else 0
    except click.Abort as abort:
        return _failed(_said_of_interrupt(abort.__cause__), INTERRUPTED)
    except click.ClickException as error:
        error.show()
        return USAGE
    except BaseException as error:  # noqa: BLE001 - every error becomes an exit code here
        code = exit_code_of(error)
        if code == INTERRUPTED:
            return _failed(_said_of_interrupt(error), code)
        if code is None:
            # Not above: it imports every step and fault, and so what they need.
            from kchaos.harness.run.own_parts import own_place

            if place := own_place(error):
                return _failed(f"{place}: {type(error).__name__}: {error}; mend it there", USAGE)
            click.echo(printable(traceback.format_exc()), err=True)
            return _failed("this is a defect of kchaos: please report the lines above", INTERNAL)
        refused = machine_error_in(error)
        if refused is not None:
            return _failed(refusal_text(refused), code)
        if isinstance(error, MemoryError):
            return _failed("this process may have no more memory: raise its limit", code)
        return _failed(explained(error), code)


def _said_of_interrupt(error: BaseException | None) -> str:
    """Return the interrupt's own message, such as of a killed play, or the usual one."""
    said = str(error) if isinstance(error, KeyboardInterrupt) else ""
    return said or "interrupted; everything was healed and stopped"


def _failed(message: str, code: int) -> int:
    click.echo(f"kchaos: {printable(message)}", err=True)
    return code


def _require_working_directory() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise click.ClickException(
            "the working directory is gone: change to one that exists"
        ) from None


def _agrees_with_spark(played: Sequence[Any], *, offline: bool, say: Callable[[str], None]) -> bool:
    """Judge all runs together in a Spark job; return whether its results are the same."""
    from kchaos.harness.commands.judge_runs import spark_agrees

    runs = [run.run.path for run in played if run.run]
    if not runs:
        # Every play was killed, and the exit code says so already.
        return True
    say(f"Spark judges the {len(runs)} runs together")
    return spark_agrees(runs, offline=offline, say=say)


def _print_table(played: list[Any]) -> None:
    from kchaos.harness.commands.show import table_text

    click.echo(printable(table_text([run.results for run in played])))
    for run in played:
        if run.report is not None:
            click.echo(f"report: {printable(str(run.report))}")
