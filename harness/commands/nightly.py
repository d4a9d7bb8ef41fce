"""`kchaos nightly`: drawn schedules until a budget is used up, and a summary in the morning."""

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from kchaos.checkers.acts import Mode
from kchaos.checkers.errors import StoreError
from kchaos.checkers.results import is_unknown, reason_of
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import RunLine, bugs_in, line_of_run
from kchaos.checkers.store import Place, StoredPlace
from kchaos.clusters.errors import MachineError
from kchaos.clusters.front.drivers import why_no_slow_disk
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import release_of
from kchaos.clusters.system.leftovers import work_directory
from kchaos.harness.commands.children import Children
from kchaos.harness.commands.nights_on_store import put_night, require_free
from kchaos.harness.commands.summary import require_baseline, summarise
from kchaos.harness.errors import UsageError
from kchaos.harness.player.candidates import FAULT_KINDS, fault_kinds_of
from kchaos.harness.player.drawing import check_mix, draw, has_kraft, mixes_not_drawn, no_formats
from kchaos.harness.player.rare import SLOW_DISKS
from kchaos.harness.run.runner import RunOptions, delete_run
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.seeds import own_version, seed_text
from kchaos.harness.summary.exercised import leaning_after, rules_of
from kchaos.harness.summary.lines import LINES, LOCK, Line, append_line, lines_in, read_lines
from kchaos.harness.summary.summary import Summary
from kchaos.harness.summary.tables import append, rows_in, rows_of

NIGHT = "night.json"
_ROWS = ".rows"
"""In a night's folder: tables with the rows of its runs, until they are in those of `--tables`."""
_SEEDS = 1_000_000_000
FIRST_PLAY_S = 90.0
"""Seconds that a play is taken to need while none has been played, and no baseline says."""
_LOOK_S = 1.0
_Drawn = tuple[int, str, str]
"""Seed, Kafka and mix of a schedule."""


class Player(AbstractContextManager["Player"], Protocol):
    """Player of scenarios, within its context: `Children`, or a stand-in."""

    def play(self, scenario: Scenario) -> Line:
        """Play and judge a scenario once; return a line with `run`, the run's path."""

    def stop(self) -> None:
        """End the running plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """Plan of a night. It is kept in night.json; the same schedules follow from the same values.

    Attributes:
        kafkas: Releases or paths; each gets every seed.
        seed: Of the first schedules.
        mixes: Each with how often it is drawn beside the others.
        steps: Acts of a schedule.
        shard: Which part of the seeds, from 1, and of how many.
        mode: Where clusters keep their metadata; None for what is usual with the release.
        leaning: How much more often a kind of step is drawn than the mixes say.
    """

    kafkas: tuple[str, ...]
    seed: int
    mixes: Mapping[str, float]
    steps: int
    gated: bool
    shard: tuple[int, int] = (1, 1)
    mode: Mode | None = None
    leaning: Mapping[str, float] = field(default_factory=dict)

    def mixes_of(self, release: str) -> Mapping[str, float]:
        """Return the mixes drawn for a release; some are never drawn with KRaft.

        Raises:
            UsageError: None of them is.
            ReleaseError: The release has no such mode.
        """
        known = release_of(release)
        left_out = mixes_not_drawn(known, is_kraft=has_kraft(known, self.mode))
        drawn = {mix: weight for mix, weight in self.mixes.items() if mix not in left_out}
        if not drawn:
            raise UsageError(
                f"{', '.join(self.mixes)}: nothing of that is drawn for {release} with KRaft; add "
                "--mix mixed"
            )
        return drawn

    def require_mixes(self, release: str) -> None:
        """Check that each mix can be drawn for a release; some need ZooKeeper.

        Raises:
            UsageError: One of them is not, such as upgrades of the earliest release.
            ReleaseError: The release has no such mode.
        """
        for mix in self.mixes_of(release):
            check_mix(mix, release, is_kraft=has_kraft(release_of(release), self.mode))

    def faults(self, releases: Iterable[str]) -> set[str]:
        """Return the kinds of faults that are drawn for any of these releases."""
        return {
            kind
            for release in releases
            for kind in fault_kinds_of(
                self.mixes_of(release), is_kraft=has_kraft(release_of(release), self.mode)
            )
        }

    def schedules(self, releases: Mapping[str, str]) -> Iterator[_Drawn]:
        """Yield seed, Kafka and mix of each schedule, without end.

        Args:
            releases: By Kafka, the release by which it is judged.
        """
        part, parts = self.shard
        seed = self.seed + part - 1
        mixes = {kafka: self.mixes_of(releases[kafka]) for kafka in self.kafkas}
        while True:
            chance = random.Random(f"mix of {seed}")
            for kafka in self.kafkas:
                yield seed, kafka, chance.choices([*mixes[kafka]], [*mixes[kafka].values()])[0]
            seed += parts


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
class _Course:
    """Course of a night, and its product."""

    folder: Path
    limits: Limits
    began: float
    guess_s: float
    baseline: Place | None
    fail_on: Sequence[str]
    tables: Place | None
    store: StoredPlace | None
    say: Callable[[str], None]
    done: Callable[[Line], None]
    lines: list[Line]
    warnings: list[str] = field(default_factory=list)

    @property
    def left_s(self) -> float:
        limit = self.limits.for_s
        return float("inf") if limit is None else self.began + limit - time.monotonic()

    @property
    def longest_s(self) -> float:
        """Seconds that a play needs: as the longest of this night, or as guessed at first."""
        return _longest_of(self.lines) or self.guess_s

    def take(self, line: Line) -> None:
        """Keep the line of an ended run, and the run itself if it is to stay."""
        append_line(self.folder / LINES, line)
        place = self.folder / line["run"]
        if self.tables is not None and place.is_dir():
            # Before the run may be deleted: its rows are on the disk, whatever ends the night.
            append([rows_of(place)], self.folder / _ROWS)
        self.lines.append(line)
        self.done(line)
        reason = reason_of(line)
        words = {True: "yes", False: "no", None: "unknown"}
        self.say(
            f"{len(self.lines)}: {line['run']}: conforms: {words[line['conforms']]}, "
            f"safe: {words[line['safe']]}{f'; {reason}' if reason else ''}"
        )
        self._prune()

    def summary(self) -> Summary:
        """Write and return the summary of all runs.

        Adds them to the tables, and puts what stays on a store, if there are to be any.
        """
        made = summarise(
            [self.folder],
            baseline=self.baseline,
            fail_on=self.fail_on,
            output=self.folder,
            say=self.say,
            warnings=self.warnings,
        )
        if self.tables is not None:
            self._add_rows(self.tables)
        if self.store is not None:
            runs = [line["run"] for line in self.lines]
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
        kept = [line for line in self.lines if (self.folder / line["run"]).is_dir()]
        green = [line for line in kept if _is_green(line)]
        if self.limits.keep is not None:
            for line in green[: max(0, len(green) - self.limits.keep)]:
                delete_run(self.folder / line["run"])
        if self.limits.max_bytes is None:
            return
        sizes = {line["run"]: _size(self.folder / line["run"]) for line in kept}
        shown = Counter(key for line in kept for key in _shows(line))
        others = [line for line in kept if not _is_green(line)]
        for line in [*green, *others]:
            if sum(sizes.values()) <= self.limits.max_bytes:
                return
            is_last = any(shown[key] < 2 for key in _shows(line))
            if not _is_green(line) and is_last:
                continue
            delete_run(self.folder / line["run"])
            sizes[line["run"]] = 0
            shown.subtract(_shows(line))

    @property
    def is_full(self) -> bool:
        """Whether what must be kept takes more than it may."""
        limit = self.limits.max_bytes
        return limit is not None and limit < sum(
            _size(self.folder / line["run"]) for line in self.lines
        )


def nightly(
    night: Night,
    *,
    folder: Path,
    limits: Limits,
    side_by_side: int,
    baseline: Place | None,
    fail_on: Sequence[str],
    tables: Place | None = None,
    store: StoredPlace | None = None,
    options: RunOptions,
    say: Callable[[str], None],
    done: Callable[[Line], None],
    player: Callable[[Path], Player] | None = None,
) -> Summary:
    """Play until a limit is reached, or Ctrl-C; write the summary, and return it.

    `folder` has runs, lines and summary; an existing night with the same values is resumed.
    `fail_on` is as in `kchaos summary`. `tables` get the runs as Parquet, and `store` gets lines,
    summary and packs at the end, if given. `player` makes the player from a work directory; None
    plays in child processes.

    Raises:
        UsageError: No play fits into the budget, a mix is not drawn for a release, or the folder
            has another night or is in use.
        StoreError: An object store cannot be asked, or does not take what it is to keep.
        MachineError: The machine cannot play one of the mixes, or cannot go on.
        KeyboardInterrupt: Ctrl-C; the summary is written.
    """
    require_baseline(baseline, fail_on)
    require_free(store, tables)
    earlier = [] if baseline is None else lines_in(baseline)
    guess_s = _longest_s(earlier, limits)
    releases = _playable(night, options, say)
    with _only_one(folder):
        night = replace(night, leaning=_leaning(folder, earlier, night.faults(releases.values())))
        _agree(folder, night)
        course = _Course(
            folder=folder,
            limits=limits,
            began=time.monotonic(),
            guess_s=guess_s,
            baseline=baseline,
            fail_on=fail_on,
            tables=tables,
            store=store,
            say=say,
            done=done,
            lines=list(read_lines(folder / LINES)) if (folder / LINES).is_file() else [],
        )
        for sentence in _begins(night, releases.values(), folder, side_by_side):
            say(sentence)
        with _told_if_it_ends_early(course), _player(player, options) as playing:
            _play(night, course, playing, releases, side_by_side)
        return course.summary()


def _require_slow_disks(mixes: Collection[str], options: RunOptions) -> None:
    """Refuse the mix of slow disks if its first play would end the night.

    Raises:
        MachineError: The message says what is in the way.
    """
    if SLOW_DISKS in mixes and (reason := why_no_slow_disk(options.driver)):
        raise MachineError(f"the mix {SLOW_DISKS} cannot be played here: {reason}")


@contextlib.contextmanager
def _player(given: Callable[[Path], Player] | None, options: RunOptions) -> Iterator[Player]:
    """Yield a player of scenarios, with a work directory for the block."""
    make = given or (lambda work: Children(options=options, work=work))
    with work_directory("nightly") as work, make(work) as player:
        yield player


@contextlib.contextmanager
def _told_if_it_ends_early(course: _Course) -> Iterator[None]:
    """Write the summary of any plays before an error ends the night."""
    try:
        yield
    except BaseException as error:
        what = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        course.warnings.append(f"the night ended early: {what}")
        if course.lines:
            # What ended the night is the error, also where this cannot be written either.
            try:
                course.summary()
            except (OSError, StoreError) as refused:
                course.say(f"the summary or the tables could not be written: {refused}")
        raise


def _longest_of(lines: Iterable[Line]) -> float:
    """Return the most seconds to draw and play one line's schedule; 0 if none has them."""
    return max(
        (line["wall_s"] + line.get("drawn_s", 0.0) for line in lines if line.get("wall_s")),
        default=0.0,
    )


def _longest_s(earlier: Sequence[Line], limits: Limits) -> float:
    """Return the seconds that a play is expected to need, by an earlier night's lines.

    Raises:
        UsageError: The night has less time than one play needs.
    """
    longest_s = _longest_of(earlier) or FIRST_PLAY_S
    if limits.for_s is not None and limits.for_s < longest_s:
        raise UsageError(
            f"--for {limits.for_s:.0f}s is too short: one play took up to {longest_s:.0f} s"
            if longest_s != FIRST_PLAY_S
            else f"--for {limits.for_s:.0f}s is too short: the first play is given "
            f"{FIRST_PLAY_S:.0f} s, since nothing says how long one takes"
        )
    return longest_s


def _begins(
    night: Night, releases: Collection[str], folder: Path, side_by_side: int
) -> Iterator[str]:
    """Yield the messages before the first play.

    That is which mixes draw less on these releases, and what is drawn more often than usual; then
    the seeds, and where the runs go.
    """
    for release in releases:
        if left_out := night.mixes.keys() - night.mixes_of(release).keys():
            yield f"{release}: {', '.join(sorted(left_out))} are not drawn with KRaft"
    for mix in night.mixes:
        yield from filter(None, (no_formats(mix, release) for release in releases))
    if night.leaning:
        kinds = ", ".join(f"{kind} {factor:g}x" for kind, factor in night.leaning.items())
        yield f"what the baseline had seldom is drawn more often: {kinds}"
    clusters = "one cluster" if side_by_side == 1 else f"{side_by_side} clusters"
    yield f"seeds from {seed_text(night.seed)} on, {clusters} at once, into {folder}"


def _play(
    night: Night, course: _Course, player: Player, releases: Mapping[str, str], side_by_side: int
) -> None:
    """Play side by side; begin no play that cannot end in time, and end all then."""
    known = {(line.get("seed"), line.get("kafka")) for line in course.lines}
    schedules = (drawn for drawn in night.schedules(releases) if drawn[:2] not in known)
    under_way: dict[Future[Line], _Drawn] = {}
    left = None if course.limits.runs is None else course.limits.runs - len(known)
    play = partial(_line_of_play, night, course.folder, player, releases)
    there = {path.name for path in course.folder.iterdir()}
    is_stopped = False
    with ThreadPoolExecutor(max_workers=side_by_side) as pool:
        try:
            while True:
                while (
                    len(under_way) < side_by_side
                    and left != 0
                    and course.left_s >= course.longest_s
                    and not course.is_full
                ):
                    schedule = next(schedules)
                    under_way[pool.submit(play, schedule)] = schedule
                    left = None if left is None else left - 1
                if not under_way:
                    break
                ended, _ = wait(under_way, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
                for future in ended:
                    del under_way[future]
                    line = future.result()
                    course.take(line)
                if course.left_s <= 0 and under_way:
                    played = ", ".join(
                        f"seed {seed} on {kafka} ({mix})" for seed, kafka, mix in under_way.values()
                    )
                    course.warnings.append(
                        f"the budget was used up while this was played, and ended without a "
                        f"result: {played}; the same command plays it again"
                    )
                    player.stop()
                    is_stopped = True
                    break
        except BaseException:
            player.stop()
            raise
    if is_stopped:
        _forget_stopped(course, there)
    if course.is_full:
        course.warnings.append(
            "the night ended early: the runs that must be kept take more than --max-size"
        )


def _forget_stopped(course: _Course, there: Collection[str]) -> None:
    """Delete runs that the night has ended itself: the same command plays them again."""
    known = {*there, *(line["run"] for line in course.lines)}
    for path in course.folder.iterdir():
        is_run = path.name not in known and (path / "run.json").is_file()
        if is_run and not RunDirectory(path).judgements():
            delete_run(path)


def _line_of_play(
    night: Night, folder: Path, player: Player, releases: Mapping[str, str], drawn: _Drawn
) -> Line:
    """Play one schedule; if it alone cannot be played, its line says so."""
    seed, kafka, mix = drawn
    told: dict[str, Any] = {"seed": seed, "kafka": kafka, "mix": mix}
    began = time.monotonic()
    try:
        scenario = draw(
            seed,
            kafka=kafka,
            release=releases[kafka],
            steps=night.steps,
            mix=mix,
            gated=night.gated,
            mode=night.mode,
            leaning=night.leaning,
        )
        told["drawn_s"] = round(time.monotonic() - began, 3)
        began = time.monotonic()
        path = Path(str(player.play(scenario)["run"]))
    except (MachineError, UsageError, OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - one play that fails ends no night: it is unknown
        release = releases[kafka]
        lost = RunLine(
            run=f"seed-{seed}-{mix}-{release}",
            entry="chaos",
            case=mix,
            release=release,
            unknown=f"the play failed: {error}",
        )
        return lost.to_json() | told
    line = line_of_run(path).to_json() | told | {"wall_s": round(time.monotonic() - began, 3)}
    # A run whose conformance is known was followed, so that it can be followed once more.
    return line | ({} if line["conforms"] is None else {"rules": rules_of(path)})


def _playable(night: Night, options: RunOptions, say: Callable[[str], None]) -> dict[str, str]:
    """Return each Kafka's release, if all of its mixes can be played on this machine.

    Raises:
        UsageError: A mix is not drawn for a release.
        ReleaseError: A Kafka is of no known release.
        MachineError: The machine cannot play a mix that is drawn.
    """
    releases = _releases(night.kafkas, options, say)
    for release in releases.values():
        night.require_mixes(release)
        _require_slow_disks(night.mixes_of(release), options)
    return releases


def _releases(
    kafkas: Sequence[str], options: RunOptions, say: Callable[[str], None]
) -> dict[str, str]:
    """Return the release by which each Kafka is judged, or refuse a broken or unknown one."""
    return {
        kafka: release_of(
            fetch(kafka, driver=options.driver, offline=options.offline, say=say).release
        ).judged_as
        for kafka in kafkas
    }


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
                f"another kchaos plays a night in {folder}: choose another --output"
            ) from None
        os.pwrite(lock, b"a night is played\n", 0)
        try:
            yield
        finally:
            os.ftruncate(lock, 0)
    finally:
        os.close(lock)


def _leaning(folder: Path, earlier: Sequence[Line], kinds: Collection[str]) -> Mapping[str, float]:
    """Return the night's weights: those of its begin, if any, else by the baseline."""
    with contextlib.suppress(FileNotFoundError):
        return dict(json.loads((folder / NIGHT).read_text()).get("leaning", {}))
    return leaning_after(earlier, [kind for kind in FAULT_KINDS if kind in kinds])


def _agree(folder: Path, night: Night) -> None:
    """Write night.json, or check that the existing one agrees."""
    file = folder / NIGHT
    asked = json.loads(json.dumps(asdict(night) | {"kchaos": own_version()}))
    if file.exists():
        there = json.loads(file.read_text())
        other = [name for name, value in asked.items() if there.get(name) != value]
        if other:
            raise UsageError(
                f"{folder} has another night ({', '.join(other)}: see {file}): choose another "
                "--output, or say the same to go on with it"
            )
        return
    file.write_text(json.dumps(asked, indent=1) + "\n")


def seed_of(folder: Path, seed: int | None) -> int:
    """Return the given seed, else that of the night in the folder, else any."""
    if seed is not None:
        return seed
    with contextlib.suppress(OSError, ValueError, KeyError):
        return int(json.loads((folder / NIGHT).read_text())["seed"])
    return random.SystemRandom().randrange(_SEEDS)


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


def bytes_in(text: str) -> int:
    """Return the bytes of a size such as 500M or 2G.

    Raises:
        ValueError: It is none.
    """
    parts = re.fullmatch(r"(\d+)([KMG])", text)
    if parts is None:
        raise ValueError(f"{text!r} is no size such as 500M or 2G")
    return int(parts[1]) << {"K": 10, "M": 20, "G": 30}[parts[2]]


def _is_green(line: Line) -> bool:
    is_as_predicted = line["conforms"] is not False and not is_unknown(line)
    return line["safe"] is True and is_as_predicted and line["expected"] is True


def _shows(line: Line) -> set[tuple[str, str]]:
    """Return the run's findings with its release; other runs may show them too."""
    shown = {finding["fingerprint"] for finding in bugs_in(line)}
    if line["unknown"]:
        shown.add(re.sub("[0-9]+", "N", str(line["unknown"])))
    return {(str(line["release"]), fingerprint) for fingerprint in shown}


def _size(folder: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return sum(file.lstat().st_size for file in folder.rglob("*"))
    return 0
