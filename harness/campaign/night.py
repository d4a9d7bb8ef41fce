"""`kchaos nightly`: drawn schedules until a budget is used up, and a summary in the morning."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from kchaos.checkers.errors import StoreError
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import RunLine, is_unknown, reason_of
from kchaos.checkers.store import Place, StoredPlace
from kchaos.clusters.errors import MachineError
from kchaos.clusters.front.drivers import why_no_slow_disk
from kchaos.clusters.releases import release_of
from kchaos.harness.campaign.campaign import Campaign, Player, player_in, time_left
from kchaos.harness.campaign.corpus import Corpus, Kept, add_run, coverage_of, read_corpus
from kchaos.harness.campaign.nights_on_store import put_night, require_free
from kchaos.harness.campaign.schedules import DrawnSchedules, Due, releases_of
from kchaos.harness.campaign.summary_files import require_baseline, summarise
from kchaos.harness.errors import UsageError
from kchaos.harness.player.candidates import MIXES
from kchaos.harness.player.drawing import has_kraft
from kchaos.harness.player.rare import SLOW_DISKS
from kchaos.harness.run.runner import RunOptions, delete_run
from kchaos.harness.seeds import own_version, seed_text
from kchaos.harness.summary.exercised import rules_of
from kchaos.harness.summary.lines import LINES, LOCK, append_line, lines_in, of_kafka, read_lines
from kchaos.harness.summary.summary import Summary
from kchaos.harness.summary.tables import append, rows_in, rows_of

NIGHT = "night.json"
_OF_A_PLAN = ("kafkas", "seed", "mixes", "steps", "gated", "shard", "mode", "planted")
_ROWS = ".rows"
"""In a night's folder: tables with the rows of its runs, until they are in those of `--tables`."""
FIRST_PLAY_S = 90.0
"""Seconds that a play is taken to need while none has been played, and no baseline says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a night ends, and what is kept of it.

    Attributes:
        for_s: No play goes on after so many seconds, and none is begun that would.
        runs: How many schedules; None for as many as there is time for.
        keep: Of the runs that conform, are safe and expected: all (None), or the newest so many.
        max_bytes: How much runs may take on disk; None for any.
    """

    for_s: float | None
    runs: int | None
    keep: int | None
    max_bytes: int | None


@dataclass(slots=True, kw_only=True)
class Night:
    """A night in its folder: its plan, which runs it has, and what is kept of them.

    Attributes:
        plan: A night that is in the folder already goes on if it has the same plan.
        folder: Where runs, lines and summary go.
        fail_on: As in `kchaos summary`; `baseline` likewise.
        corpus: File of the schedules that are mutated, and to which this night adds; None for a
            night that draws each schedule anew.
        tables: Where the runs are added to Parquet tables, or None.
        store: Where on an object store lines, summary and packs go in the end, or None.
        done: Called with each run's line.
    """

    plan: DrawnSchedules
    folder: Path
    limits: Limits
    baseline: Place | None = None
    fail_on: Sequence[str] = ()
    corpus: Path | None = None
    tables: Place | None = None
    store: StoredPlace | None = None
    say: Callable[[str], None]
    done: Callable[[RunLine], None]
    _lines: list[RunLine] = field(default_factory=list)
    _warnings: list[str] = field(default_factory=list)
    _began: float = 0.0
    _earlier: int = 0
    _baseline: Sequence[RunLine] = ()
    _guess_s: float = FIRST_PLAY_S
    _corpus: Corpus = field(default_factory=Corpus)

    def play(self, *, side_by_side: int, options: RunOptions) -> Summary:
        """Play until a limit is reached, or Ctrl-C; write the summary, and return it.

        Raises:
            UsageError: No play fits into the budget, a mix is not for a release, or the
                folder has another night or is in use.
            StoreError: An object store cannot be asked, or does not take what it is to keep.
            MachineError: The machine cannot play one of the mixes, or cannot go on.
            KeyboardInterrupt: Ctrl-C; the summary is written.
        """
        require_baseline(self.baseline, self.fail_on)
        require_free(self.store, self.tables)
        if self.corpus is not None:
            self._corpus = read_corpus(self.corpus)
        earlier = [] if self.baseline is None else of_kafka(lines_in(self.baseline))
        self._guess_s = _longest_s(earlier, self.limits)
        releases = releases_of(self.plan, options, self.say)
        for release in releases.values():
            _require_slow_disks(self.plan.mixes_of(release), options)
        with _only_one(self.folder):
            self._agree()
            self._began = time.monotonic()
            file = self.folder / LINES
            self._baseline = earlier
            self._lines = [*read_lines(file)] if file.is_file() else []
            self._earlier = len(self._lines)
            for sentence in self._begins(releases.values(), side_by_side):
                self.say(sentence)
            with self._told_if_it_ends_early(), player_in("nightly", options) as player:
                self._play(player, releases, side_by_side)
            return self.summary()

    def _agree(self) -> None:
        """Begin a night, or go on with the one that is there.

        Raises:
            UsageError: Another night is there.
        """
        file = self.folder / NIGHT
        there = json.loads(file.read_text()) if file.exists() else {}
        plan = {name: getattr(self.plan, name) for name in _OF_A_PLAN} | {"kchaos": own_version()}
        asked = json.loads(json.dumps(plan))
        if not there:
            file.write_text(json.dumps(asked, indent=1) + "\n")
        elif other := [name for name, value in asked.items() if there.get(name) != value]:
            raise UsageError(
                f"{self.folder} has another night ({', '.join(other)}: see {file}): choose another "
                "--output, or say the same to go on with it"
            )

    def _begins(self, releases: Collection[str], side_by_side: int) -> Iterator[str]:
        """Yield what is said before the first play."""
        yield from self.plan.begins(releases)
        clusters = "one cluster" if side_by_side == 1 else f"{side_by_side} clusters"
        if self.corpus is not None:
            kept = len(self._corpus.kept)
            yield f"{self.corpus} has {kept} schedules: most of this night's are mutants of such"
        yield f"seeds from {seed_text(self.plan.seed)} on, {clusters} at once, into {self.folder}"

    @contextlib.contextmanager
    def _told_if_it_ends_early(self) -> Iterator[None]:
        """Write the summary of what was played, if anything was, before an error ends the night."""
        try:
            yield
        except BaseException as error:
            what = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            self._warnings.append(f"the night ended early: {what}")
            if self._lines:
                # What ended the night is the error, also where this cannot be written either.
                try:
                    self.summary()
                except (OSError, StoreError) as refused:
                    self.say(f"the summary or the tables could not be written: {refused}")
            raise

    def _play(self, player: Player, releases: Mapping[str, str], side_by_side: int) -> None:
        """Play side by side. No play is begun that could not end in time, and none goes on then."""
        there = {path.name for path in self.folder.iterdir()}
        known = {(line.seed, line.kafka) for line in self._lines}
        again = [*self.plan.known(self._baseline, releases)]
        if again:
            self.say(f"what the baseline found is run again first: {len(again)} schedules")
        drawn = chain(again, self.plan.due(releases))
        due: Iterator[Due] = (self._guided(each) for each in drawn if _is_first(known, each))
        if self.limits.runs is not None:
            due = islice(due, max(0, self.limits.runs - len(self._lines)))
        campaign = Campaign(
            player=player,
            side_by_side=side_by_side,
            may_begin=lambda: self._left_s >= self._longest_s and not self._is_full,
            is_over=lambda: self._left_s <= 0,
            look_at=_with_rules,
        )
        ended = campaign.run(due, self.plan.draw, self._take, failed=self._lost)
        if ended:
            played = ", ".join(f"seed {each.seed} on {each.kafka} ({each.mix})" for each in ended)
            self._warnings.append(
                f"the budget was used up while this was running, and ended without a result: "
                f"{played}; the same command runs it again"
            )
            self._forget_ended(there)
        if self._is_full:
            self._warnings.append(
                "the night ended early: the runs that must be kept take more than --max-size"
            )

    def _guided(self, due: Due) -> Due:
        """Return a mutant in place of a schedule, by its seed and the corpus as it is now.

        What is run again, and where the corpus has nothing of its Kafka and mode, stays as it is.
        """
        if due.is_known:
            return due
        mixes = [*self.plan.mixes_of(due.release)]
        found = self._corpus.parents(due.seed, due.kafka, self._mode_of(due), mixes)
        return due if found is None else replace(due, mix=found[0], parents=found[1:])

    def _mode_of(self, due: Due) -> str:
        is_kraft = has_kraft(release_of(due.release), self.plan.mode)
        return "kraft" if is_kraft else "zookeeper"

    def _learn(self, due: Due, line: RunLine) -> None:
        """Add what a run covered to the corpus; a mix of walks has no acts that are mutated."""
        points = coverage_of(line)
        if self.corpus is None or not points or due.mix not in MIXES:
            return
        kept = Kept(
            kafka=due.kafka,
            mode=self._mode_of(due),
            mix=due.mix,
            points=points,
            scenario=self.plan.plain(due).to_json(),
        )
        self._corpus = add_run(self.corpus, kept)

    def _of_all(self) -> str:
        """Return of how many runs, and how much time is left, as far as the limits tell."""
        limits, begun = self.limits, len(self._lines) - self._earlier
        of_all = "" if limits.runs is None else f" of {limits.runs}"
        if limits.for_s is not None:
            return f"{of_all} (at most {max(0.0, self._left_s) / 60:.0f} min left)"
        missing = (limits.runs or 0) - self._earlier
        return of_all + time_left(time.monotonic() - self._began, begun, missing)

    @property
    def _left_s(self) -> float:
        limit = self.limits.for_s
        return float("inf") if limit is None else self._began + limit - time.monotonic()

    @property
    def _longest_s(self) -> float:
        """Seconds that a play needs: as the longest of this night, or as guessed at first."""
        return _longest_of(self._lines) or self._guess_s

    def _lost(self, due: Due, error: Exception) -> RunLine:
        """Return the line of a play that failed: only that one could not be played."""
        return replace(self.plan.line_of(due), unknown=f"the run failed: {error}")

    def _take(self, due: Due, line: RunLine) -> None:
        """Keep the line of a run that has ended, and of the runs those that are to stay."""
        place = Path(line.run)
        name = place.name or f"seed-{due.seed}-{due.mix}-{due.release}"
        report = None if line.report is None else Path(line.report).name
        line = replace(line, run=name, report=report, acts=self.plan.acts)
        append_line(self.folder / LINES, line)
        if self.tables is not None and place.name:
            # Before the run may be deleted: its rows are on the disk, whatever ends the night.
            append([rows_of(place)], self.folder / _ROWS)
        self._lines.append(line)
        self._learn(due, line)
        self.done(line)
        reason = reason_of(line)
        told = f"{len(self._lines)}{self._of_all()}: {line.run}: {line.verdict}"
        self.say(f"{told}; {reason}" if reason else told)
        self._prune()

    def _forget_ended(self, there: Collection[str]) -> None:
        """Delete runs that the night has ended itself: the same command plays them again."""
        known = {*there, *(line.run for line in self._lines)}
        for path in self.folder.iterdir():
            is_run = path.name not in known and (path / "run.json").is_file()
            if is_run and not RunDirectory(path).judgements():
                delete_run(path)

    def summary(self) -> Summary:
        """Write what the runs say together.

        Adds them to the tables, and puts what stays on a store, if there are to be any.
        """
        made = summarise(
            [self.folder],
            baseline=self.baseline,
            fail_on=self.fail_on,
            output=self.folder,
            say=self.say,
            warnings=self._warnings,
        )
        if self.tables is not None:
            self._add_rows(self.tables)
        if self.store is not None:
            runs = [line.run for line in self._lines]
            put_night(self.folder, self.store, runs=runs, say=self.say)
        return made

    def _add_rows(self, tables: Place) -> None:
        """Add the rows of all runs to the tables; keep them in the night until that succeeds."""
        own = self.folder / _ROWS
        try:
            append(rows_in(own), tables)
        except (OSError, StoreError, UsageError):
            self.say(f"the rows of all runs are kept in {own}; the same command adds them")
            raise
        shutil.rmtree(own, ignore_errors=True)

    def _prune(self) -> None:
        kept = [line for line in self._lines if (self.folder / line.run).is_dir()]
        green = [line for line in kept if _is_green(line)]
        if self.limits.keep is not None:
            for line in green[: max(0, len(green) - self.limits.keep)]:
                delete_run(self.folder / line.run)
        if self.limits.max_bytes is None:
            return
        sizes = {line.run: _size(self.folder / line.run) for line in kept}
        shown = Counter(key for line in kept for key in _shows(line))
        others = [line for line in kept if not _is_green(line)]
        for line in [*green, *others]:
            if sum(sizes.values()) <= self.limits.max_bytes:
                return
            is_last = any(shown[key] < 2 for key in _shows(line))
            if not _is_green(line) and is_last:
                continue
            delete_run(self.folder / line.run)
            sizes[line.run] = 0
            shown.subtract(_shows(line))

    @property
    def _is_full(self) -> bool:
        """Whether what must be kept takes more than it may."""
        limit = self.limits.max_bytes
        return limit is not None and limit < sum(
            _size(self.folder / line.run) for line in self._lines
        )


def _is_first(known: set[tuple[int | None, str]], due: Due) -> bool:
    """Return whether a schedule was not played yet, and note it."""
    key = (due.seed, due.kafka)
    if key in known:
        return False
    known.add(key)
    return True


def _require_slow_disks(mixes: Collection[str], options: RunOptions) -> None:
    """Refuse the mix of slow disks beforehand where the first of its plays would end the night.

    Raises:
        MachineError: The message says what is in the way.
    """
    if SLOW_DISKS in mixes and (reason := why_no_slow_disk(options.driver)):
        raise MachineError(f"the mix {SLOW_DISKS} cannot be run here: {reason}")


def _with_rules(line: RunLine) -> RunLine:
    # A run whose conformance is known was followed, so that it can be followed once more.
    return line if line.conforms is None else replace(line, rules=rules_of(Path(line.run)))


def _longest_of(lines: Iterable[RunLine]) -> float:
    """Return the most seconds in which a schedule was drawn and played; 0 if no line says."""
    return max((line.wall_s + (line.drawn_s or 0.0) for line in lines if line.wall_s), default=0.0)


def _longest_s(earlier: Sequence[RunLine], limits: Limits) -> float:
    """Seconds that a play is taken to need, by an earlier night's lines.

    Raises:
        UsageError: The night has less time than one play needs.
    """
    longest_s = _longest_of(earlier) or FIRST_PLAY_S
    if limits.for_s is not None and limits.for_s < longest_s:
        raise UsageError(
            f"--for {limits.for_s:.0f}s is too short: one run took up to {longest_s:.0f} s"
            if longest_s != FIRST_PLAY_S
            else f"--for {limits.for_s:.0f}s is too short: the first run is given "
            f"{FIRST_PLAY_S:.0f} s, since nothing says how long one takes"
        )
    return longest_s


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Lock the folder for the block, creating it if need be.

    Raises:
        UsageError: Another night is played there, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(
            f"there can be no night in {folder}: {error.strerror}; choose another --output"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another kchaos runs a night in {folder}: choose another --output"
            ) from None
        os.pwrite(lock, b"a night is running\n", 0)
        try:
            yield
        finally:
            os.ftruncate(lock, 0)
    finally:
        os.close(lock)


def seed_in(folder: Path) -> int | None:
    """Return the seed of the night in a folder; None if there is none."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        return int(json.loads((folder / NIGHT).read_text())["seed"])
    return None


def _is_green(line: RunLine) -> bool:
    is_as_predicted = line.conforms is not False and not is_unknown(line)
    return line.safe is True and is_as_predicted and line.expected


def _shows(line: RunLine) -> set[tuple[str, str]]:
    """Return the run's findings with its release; other runs may show them too."""
    shown = {bug.fingerprint for bug in line.bugs}
    if line.unknown:
        shown.add(re.sub("[0-9]+", "N", line.unknown))
    return {(line.release, fingerprint) for fingerprint in shown}


def _size(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return sum(file.lstat().st_size for file in folder.rglob("*"))
    return 0
