"""Options that several commands share, and how progress is told."""

import functools
import math
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from kchaos.checkers.store import SCHEME, place_of
from kchaos.clusters.front.drivers import DRIVERS
from kchaos.clusters.system.memory import clusters_at_once
from kchaos.harness.commands.cli_complete import releases
from kchaos.harness.printable import printable
from kchaos.harness.seeds import seed_in

RUNS_DIRECTORY = "kchaos-runs"
_HEAP_MIB = 256
_MOST_JVMS = 8
"""A drawn cluster has five brokers at most, and ZooKeeper three members."""

_Answer = TypeVar("_Answer")


def _a_number(_context: click.Context, _option: click.Parameter, value: Any) -> Any:
    if value is not None and math.isnan(value):
        raise click.BadParameter("it must be a number of seconds")
    return value


def _set_patience(_context: click.Context, _option: click.Parameter, value: float | None) -> None:
    # Waits are everywhere, and in processes that this one starts.
    if value is not None:
        os.environ["KCHAOS_PATIENCE"] = str(value)


class LocalPath(click.Path):
    """A path as click has it, which is on this machine."""

    def convert(self, value: Any, option: Any, context: Any) -> Any:
        """Return the path; reject an address of an object store, which would be a folder "s3:"."""
        if str(value).startswith(SCHEME):
            self.fail(
                f"{value} is on an object store: name a path on this machine", option, context
            )
        if file := _file_above(str(value)):
            self.fail(f"{value} cannot be there: {file} is a file", option, context)
        return super().convert(value, option, context)


def _file_above(path: str) -> str:
    """Return the part of a path above it that is a file, or ""."""
    above = [str(folder) for folder in Path(path).parents]
    return next((name for name in above if os.path.lexists(name) and not os.path.isdir(name)), "")


class PlaceType(click.ParamType[Any]):
    """A path that `click.Path` takes, or a place on an object store."""

    def __init__(self, **checks: bool) -> None:
        self._path = LocalPath(path_type=Path, **checks)
        self.name = self._path.name

    def shell_complete(self, context: Any, option: Any, incomplete: str) -> Any:
        """Complete as a path."""
        return self._path.shell_complete(context, option, incomplete)

    def convert(self, value: Any, option: Any, context: Any) -> Any:
        """Return the place in the text."""
        if not str(value).startswith(SCHEME):
            return self._path.convert(value, option, context)
        try:
            return place_of(str(value))
        except ValueError as error:
            raise click.BadParameter(str(error)) from None


class ReadBy(click.ParamType[Any]):
    """An option's text as what a function reads in it."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, option: Any, context: Any) -> Any:
        """Return the text's value; one that was read already is kept."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), option, context)


def seconds_in(text: str) -> float:
    """Return the seconds of a duration such as 2h, 90m, 1h30m or 45s.

    Raises:
        ValueError: It is none.
    """
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    if not text or parts is None:
        raise ValueError(f"{text!r} is no duration such as 2h, 90m, 1h30m or 45s")
    hours, minutes, seconds = (int(part or 0) for part in parts.groups())
    return float(hours * 3600 + minutes * 60 + seconds)


def topic_in(text: str) -> tuple[str, int, int]:
    """Return name, partitions and replicas of a topic such as orders:6:3; 0 for what is left out.

    Raises:
        ValueError: It is none.
    """
    parts = re.fullmatch(r"([A-Za-z0-9._-]{1,249})(?::([1-9]\d{0,3}))?(?::([1-9]\d?))?", text)
    if parts is None:
        raise ValueError(f"{text!r} is no topic such as orders, orders:6 or orders:6:3")
    return parts[1], int(parts[2] or 0), int(parts[3] or 0)


def property_in(text: str) -> tuple[str, str]:
    """Return name and value of a setting such as min.insync.replicas=2.

    Raises:
        ValueError: It is none.
    """
    name, is_set, value = text.partition("=")
    if not is_set or not name.strip():
        raise ValueError(f"{text!r} is no setting such as min.insync.replicas=2")
    return name.strip(), value.strip()


def bytes_in(text: str) -> int:
    """Return the bytes of a size such as 500M or 2G.

    Raises:
        ValueError: It is none.
    """
    parts = re.fullmatch(r"(\d+)([KMG])", text)
    if parts is None:
        raise ValueError(f"{text!r} is no size such as 500M or 2G")
    return int(parts[1]) << {"K": 10, "M": 20, "G": 30}[parts[2]]


SEED = ReadBy("SEED", seed_in)
"""A seed, which may name the version of kchaos for which it holds."""
DURATION = ReadBy("DURATION", seconds_in)
# Those of harness.player.candidates, free and walks, which import too much for `--help`.
FREE_MIX_NAMES = (
    *("mixed", "cuts", "restarts", "shutdowns", "zombies", "elections", "holds", "clients"),
)
MIX_NAMES = (
    *FREE_MIX_NAMES,
    *("formats", "disks", "throttles", "topics", "logs", "admin", "rare", "upgrades"),
    *("slow-disks", "walks", "wide-walks"),
)
kafkas_of_schedules = click.option(
    "--kafka",
    "kafkas",
    multiple=True,
    required=True,
    metavar="RELEASE|PATH",
    shell_complete=releases,
    help="Release, distribution folder or .tgz; may be repeated.",
)
acts_of_schedules = click.option(
    "--steps", type=click.IntRange(1), default=25, show_default=True, help="Acts in a schedule."
)
plant = click.option(
    "--plant",
    "planted",
    default="",
    metavar="BUG",
    help="Plant a bug in every broker, to see whether it is found; kchaos list --planted has them.",
)
gates_of_schedules = click.option(
    "--gates/--no-gates",
    default=True,
    show_default=True,
    help="Whether acts wait for each other's effect.",
)
runs_directory = click.option(
    "--runs-dir",
    type=LocalPath(file_okay=False, path_type=Path),
    default=Path(RUNS_DIRECTORY),
    show_default=True,
    help="Where run directories go; `latest` in it names the newest.",
)
offline = click.option("--offline", is_flag=True, help="Never fetch anything; use the cache.")
driver = click.option(
    "--driver",
    type=click.Choice(DRIVERS),
    default=DRIVERS[0],
    envvar="KCHAOS_DRIVER",
    show_default=True,
    show_envvar=True,
    help="How clusters are started.",
)
settle_bound = click.option(
    "--settle-bound",
    "settle_bound_s",
    type=click.FloatRange(0, 86_400, min_open=True),
    callback=_a_number,
    metavar="SECONDS",
    envvar="KCHAOS_SETTLE_BOUND",
    show_envvar=True,
    help="Seconds without progress, after all faults are healed, until replication counts as "
    "stopped.  [default: 1.5 times the brokers' longest time-out]",
)
sign_with = click.option(
    "--sign",
    "sign_with",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="KEY",
    help="A key of OpenSSH, private or of an agent, that signs the seal of each run.",
)
patience = click.option(
    "--patience",
    type=click.FloatRange(1, 1000),
    callback=_set_patience,
    expose_value=False,
    metavar="FACTOR",
    envvar="KCHAOS_PATIENCE",
    show_envvar=True,
    help="By how much every wait is longer than it says, where the machine is slow.  [default: 1]",
)
mode = click.option(
    "--mode",
    type=click.Choice(["zookeeper", "kraft"]),
    help="Where a cluster keeps its metadata, where its releases have both.  [default: ZooKeeper "
    "before 4.0]",
)
controllers = click.option(
    "--controllers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    callback=lambda _context, _option, value: int(value),
    help="Of a KRaft cluster.",
)
properties_file = click.option(
    "--properties",
    "properties_file",
    type=LocalPath(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties of your own: brokers get its settings, without those that a test "
    "has to set.",
)
topics_file = click.option(
    "--topics",
    "topics_file",
    type=LocalPath(exists=True, dir_okay=False, path_type=Path),
    help="Topics of your own, with their partitions and settings: the output of "
    "kafka-topics.sh --describe in a file.",
)
brokers = click.option(
    "--brokers", type=click.IntRange(3, 30), help="How many.  [default: 3, or more by the mix]"
)
trust = click.option(
    "--trust",
    is_flag=True,
    help="Run also settings that may load classes, read files or connect elsewhere, and run "
    "commands and code that the scenario carries.",
)
side_by_side = click.option(
    "--side-by-side",
    type=click.IntRange(1),
    help="Clusters at once.  [default: one for every core, as memory allows; one for every two "
    "where clients' waits are measured]",
)
own_parts = click.option(
    "--parts",
    "parts",
    multiple=True,
    metavar="FILE|PACKAGE",
    help="A file of Python with entries, steps and faults of one's own, or an installed package "
    "that has some; may be repeated.",
)
# Those of harness.summary.summary, which imports too much for `--help`.
FAIL_ON = ("unsafe", "not-conforming", "unknown", "new")
fail_on = click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    multiple=True,
    help="What makes a run fail; may be repeated. new: a finding whose fingerprint the baseline "
    "does not have on that release.  [default: unsafe, not-conforming and unknown]",
)
baseline = click.option(
    "--baseline",
    type=PlaceType(exists=True),
    help="Earlier nights: a folder, or a file with the lines of one night or many; also on an "
    "object store.",
)
as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON object a result on standard output; progress goes to standard error.",
)


_OF_THE_MACHINE = frozenset(
    ("runs_dir", "driver", "offline", "settle_bound_s", "patience", "sign_with", "side_by_side")
)
"""Names of options that say how a command runs here, and not what it does."""


class Command(click.Command):
    """A command whose help begins with examples and ends with the options about the machine.

    Attributes:
        examples: Command lines, the usual one first.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.examples = examples

    def format_help_text(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then what the command does."""
        if self.examples:
            formatter.write_paragraph()
            with formatter.indentation():
                for example in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        super().format_help_text(context, formatter)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in two groups."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], "Machine": []}
        for parameter in self.get_params(context):
            is_option = isinstance(parameter, click.Option)
            record = parameter.get_help_record(context) if is_option else None
            if record is not None:
                of_machine = parameter.name in _OF_THE_MACHINE
                groups["Machine" if of_machine else "Options"].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def run_options(command: Callable[..., _Answer]) -> Callable[..., _Answer]:
    """Add the options of a command that runs, which receives them as `options`.

    A command without `runs_directory` says where its runs go by itself.
    """

    @driver
    @offline
    @settle_bound
    @patience
    @sign_with
    @functools.wraps(command)
    def with_options(
        *,
        driver: str,
        offline: bool,
        settle_bound_s: float | None,
        sign_with: Path | None,
        runs_dir: Path = Path(RUNS_DIRECTORY),
        **rest: Any,
    ) -> _Answer:
        # It imports too much for `--help`.
        from kchaos.checkers.errors import SignatureError
        from kchaos.checkers.signatures import signature_of
        from kchaos.harness.run.runner import RunOptions

        try:
            if sign_with is not None:
                signature_of(b"", sign_with)
        except SignatureError as error:
            raise click.UsageError(str(error)) from error
        options = RunOptions(
            runs_directory=runs_dir,
            offline=offline,
            driver=driver,
            settle_bound_s=settle_bound_s,
            sign_with=sign_with,
        )
        return command(options=options, **rest)

    return with_options


def default_side_by_side(*, measures_waits: bool = False) -> int:
    """Return the default number of parallel clusters, as cores and memory allow, at least 1.

    A run waits a third of its time, so there is one for every core. Where it is measured for how
    long clients had no service, there is one for every two: clusters take no time from each other.
    """
    return clusters_at_once([_HEAP_MIB] * _MOST_JVMS, cores=2 if measures_waits else 1)


def has_colour() -> bool:
    """Return whether standard output is a terminal that shows colours, and the user wants them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and sys.stdout.isatty()


def sayer() -> Callable[[str], None]:
    """Return a function that prints progress to standard error, with seconds since the start."""
    started = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"{time.monotonic() - started:6.1f}  {printable(text)}", err=True)

    return say
