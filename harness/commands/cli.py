"""The command line. Everything heavy is imported inside the command that needs it."""

import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kchaos.checkers.store import Place
from kchaos.harness.commands import cli_options as opt
from kchaos.harness.commands.bisect import bisect
from kchaos.harness.commands.chaos import chaos
from kchaos.harness.commands.cli_complete import entries, remember_entries
from kchaos.harness.commands.cli_machine import MACHINE_COMMANDS
from kchaos.harness.commands.cli_releases import versions
from kchaos.harness.commands.many_runs import pack, summary, tables, unpack
from kchaos.harness.commands.nightly import nightly
from kchaos.harness.commands.reproduce import measure, replay, reproduce
from kchaos.harness.commands.shrink import shrink
from kchaos.harness.commands.upgrade import upgrade
from kchaos.harness.printable import printable

COMMANDS = "kchaos.commands"
"""Entry points: by the name of a command, the command."""

if TYPE_CHECKING:
    from kchaos.checkers.run_line import RunLine


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
      kchaos reproduce KAFKA-6361 --kafka 1.1.1      run a bug and prove it
      kchaos report --open                           look at the newest run

    \b
    Exit codes: 0 as expected, 1 a finding that was not expected, 2 unknown;
    64 usage, 69 this machine cannot, 70 a defect of kchaos, 130 interrupted.
    """


@cli.command("list", cls=opt.Command, examples=("kchaos list", "kchaos list committed-loss"))
@click.argument("words", nargs=-1, metavar="[WORD...]")
@click.option(
    "--measured",
    type=opt.LocalPath(dir_okay=False, path_type=Path),
    default=Path(opt.RUNS_DIRECTORY) / "measurements.jsonl",
    show_default=True,
    help="Results of kchaos measure: they say when an entry was last seen.",
)
@click.option("--planted", is_flag=True, help="The bugs that --plant plants, and where each fits.")
@opt.own_parts
@opt.as_json
def list_entries(
    words: tuple[str, ...], measured: Path, planted: bool, parts: tuple[str, ...], as_json: bool
) -> None:
    """Show the known bugs, and where and when each shows.

    With WORDs it shows only bugs that have each of them in name, title, story, source or
    findings, such as: kchaos list committed-loss
    """
    from kchaos.clusters.agent.planted import PLANTED_BUGS
    from kchaos.harness.campaign.planted import planted_json, planted_text
    from kchaos.harness.campaign.results_file import ResultsFile
    from kchaos.harness.catalogue import entries_there
    from kchaos.harness.commands.show import MATRIX_KEY, last_seen_lines, matrix_lines, title_lines
    from kchaos.harness.run.own_parts import broken_parts, parts_named

    if planted:
        for bug in PLANTED_BUGS.values():
            click.echo(json.dumps(planted_json(bug)) if as_json else planted_text(bug))
        return
    entries = [each for each in entries_there(map(parts_named, parts)).values() if each.has(words)]
    for why in broken_parts():
        click.echo(f"kchaos: warning: {printable(why)}", err=True)
    seen = ResultsFile(measured).last_seen
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
    click.echo("kchaos show NAME has the story of a bug")
    click.echo("\n".join(last_seen_lines(entries, seen)))


@cli.command(
    cls=opt.Command, examples=("kchaos show KAFKA-6361", "kchaos show KAFKA-6361 KAFKA-7128")
)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=entries)
@opt.as_json
def show(names: tuple[str, ...], as_json: bool) -> None:
    """Describe NAME, a known bug: its cases, releases and source.

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


@cli.command(
    cls=opt.Command,
    examples=(
        "kchaos judge kchaos-runs/latest",
        "kchaos judge kchaos-runs --spark --output judged",
    ),
)
@click.argument("runs", nargs=-1, type=opt.PlaceType())
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
    type=opt.PlaceType(),
    help="Folder to make for Spark's Parquet files; it may be s3://BUCKET/PREFIX.  [default: "
    "judgements-spark/NNNN beside the first run]",
)
@click.option(
    "--signed-by",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Public keys, one a line: a run whose seal none of them signed is unknown.",
)
@opt.as_json
@opt.offline
def judge(
    runs: tuple[Place, ...],
    histories: tuple[Path, ...],
    master: str | None,
    spark: bool | None,
    output: Place | None,
    signed_by: Path | None,
    as_json: bool,
    offline: bool,
) -> int:
    """Judge run directories again, with Spark or in plain Python.

    RUNS are run directories, or folders of them; or packs on an object store, s3://BUCKET/PREFIX.
    Evidence and earlier judgements are not changed.
    A history has no replicas: what clients were told is judged for Jepsen's anomalies.
    """
    from kchaos.checkers.histories.judgement import judge_history
    from kchaos.checkers.run_line import ANSWERS
    from kchaos.harness.commands.judge_runs import judge_paths
    from kchaos.harness.commands.show import history_lines
    from kchaos.harness.exits import exit_code_for_histories, exit_code_for_lines

    if bool(runs) is bool(histories):
        raise click.UsageError("give run directories, or --history FILE for histories of clients")
    if (histories or spark is False) and (master is not None or output is not None):
        raise click.UsageError(
            "--master and --output are Spark's, which judges no histories: leave them out"
            if histories
            else "--master and --output are Spark's: leave them out, or --no-spark"
        )
    if signed_by is not None and (histories or spark or master is not None or output is not None):
        raise click.UsageError("--signed-by is for runs that plain Python judges")
    if histories:
        judged = [judge_history(file) for file in histories]
        for run in judged:
            text = json.dumps(run.to_json()) if as_json else "\n".join(history_lines(run))
            click.echo(text if as_json else printable(text))
        return exit_code_for_histories(run.valid for run in judged)

    def judged_lines() -> Iterator["RunLine"]:
        for line in judge_paths(
            runs,
            spark=spark,
            master=master,
            output=output,
            offline=offline,
            say=opt.sayer(),
            signed_by=signed_by,
        ):
            answers = f"{line.run}: {line.verdict}, as expected: {ANSWERS[line.expected]}"
            click.echo(json.dumps(line.to_json()) if as_json else printable(answers))
            yield line

    return exit_code_for_lines(judged_lines())


@cli.command(
    cls=opt.Command, examples=("kchaos report --open", "kchaos report --jira kchaos-runs/latest")
)
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--text", is_flag=True, help="Print it instead, 80 columns wide.")
@click.option("--jira", is_flag=True, help="Print a comment for a ticket, in Jira's markup.")
@click.option("--open", "opened", is_flag=True, help="Show the page in a browser.")
@opt.runs_directory
def report(run: Path | None, text: bool, jira: bool, opened: bool, runs_dir: Path) -> None:
    """Write the HTML page of RUN, by default the newest. Its path is printed."""
    if text + jira + opened > 1:
        raise click.UsageError("--text and --jira print, and --open shows the page: give either")
    from kchaos.checkers.run_directory import RunDirectory
    from kchaos.harness.commands.runs import newest_run
    from kchaos.harness.report import text_report, write_report
    from kchaos.harness.report.loading import load
    from kchaos.harness.report.whose import jira_text

    directory = RunDirectory.open(run or newest_run(runs_dir))
    if jira:
        click.echo(printable(jira_text(load(directory))), nl=False)
        return
    if text:
        click.echo(text_report(directory, width=80, colour=opt.has_colour()))
        return
    page = write_report(directory)
    click.echo(str(page))
    if opened:
        click.launch(str(page))


@cli.command(cls=opt.Command, examples=("kchaos runs", "kchaos runs --runs-dir kchaos-night"))
@opt.runs_directory
@opt.as_json
def runs(runs_dir: Path, as_json: bool) -> None:
    """List the runs, newest first. Each has its verdict."""
    from kchaos.harness.commands.runs import run_lines, runs_there

    there = runs_there(runs_dir)
    if as_json:
        for run in there:
            click.echo(json.dumps(run.to_json()))
    else:
        click.echo(printable("\n".join(run_lines(there))))


for command in (
    *(reproduce, replay, measure, chaos, nightly, upgrade, bisect, shrink, versions),
    *(summary, tables, pack, unpack, *MACHINE_COMMANDS),
):
    cli.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code and never raise."""
    from kchaos.clusters.errors import explained
    from kchaos.harness.exits import (
        INTERNAL,
        INTERRUPTED,
        USAGE,
        exit_code_of,
        machine_error_in,
        refusal_text,
    )

    try:
        _require_working_directory()
        remember_entries()
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
