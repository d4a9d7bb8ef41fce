"""KAFKA-7601's two options beside what was: forbid a downgrade of the format, or make it safe.

The columns are rules over the release that the document is about, for brokers of two formats: magic
2 is 0.11's, magic 1 is 0.10's and has no leader epoch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kchaos.checkers.alternatives.comparison import Cell, Claim, Column, Comparison, Result, Row
from kchaos.checkers.alternatives.kafka_7601_scenes import (
    BASE,
    FLAPS,
    A,
    B,
    C,
    downgraded,
    flapping,
    follower_takes_over,
    four_replicas,
    localized_divergence,
)
from kchaos.checkers.alternatives.scenes import Ended, Scene, play
from kchaos.checkers.alternatives.searching import Bounds, Say, drawn, explored
from kchaos.checkers.model.bounds import Machine
from kchaos.checkers.model.generation import Generation
from kchaos.checkers.model.generations import generation_for
from kchaos.checkers.model.log import Log
from kchaos.checkers.model.rules.kafka_7601 import KAFKA_7601
from kchaos.checkers.model.rules.kafka_7601_options import (
    FETCHED_SETS_SPLIT,
    MAXIMUM_FORMAT,
    ONE_FORMAT_PER_SEGMENT,
)

TITLE = "what becomes of a log whose message format goes back"
OLD_FORMAT = "0.10.2"
NEW, OLD = 2, 1
FENCING = ("KIP-320", "OffsetForLeaderEpoch v2", "Fetch v10", "KAFKA-9338")
"""With these a fetch of another epoch is refused, so that only truncation can go wrong."""

RULES: Mapping[str, tuple[str, ...]] = {
    BASE: (),
    "max. format": (MAXIMUM_FORMAT.name,),
    "clear": (KAFKA_7601.name,),
    "segments": (ONE_FORMAT_PER_SEGMENT.name,),
    "segments, split": (ONE_FORMAT_PER_SEGMENT.name, FETCHED_SETS_SPLIT.name),
}
COLUMNS = (
    Column(key=BASE, title="as it was released: the configured format is written and expected"),
    Column(key="max. format", title="option 1: a leader never writes an older format than its log"),
    Column(key="clear", title="one half of option 2, as in 2.2.1: the epoch cache is emptied"),
    Column(key="segments", title="option 2, a segment rolled where an append changes the format"),
    Column(key="segments, split", title="option 2, what was fetched at once is split for that too"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """What brokers of both formats do in one column."""

    new: Generation
    old: Generation

    def of(self, *magics: int) -> dict[int, Generation]:
        """Return brokers from 0 on, each with the format of that magic."""
        return {
            broker: self.new if magic == NEW else self.old for broker, magic in enumerate(magics)
        }


def formats(column: str, also: tuple[str, ...] = ()) -> Formats:
    """Return what brokers do in a column, and by these rules besides."""
    rules = (*RULES[column], *also)
    return Formats(
        new=generation_for(BASE, also=rules),
        old=generation_for(BASE, message_format=OLD_FORMAT, also=rules),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a consumer that knows no format above magic 1 gets of a log.

    Attributes:
        converted: Batches that the broker converts, or looks through in order to.
        unreadable: Batches in the new format that it sends as they are.
    """

    converted: int
    unreadable: int


def served(log: Log, generation: Generation) -> Served:
    """Return what a broker sends of its log to a consumer of the old format."""
    converted = unreadable = 0
    for batch in log.batches:
        configured = generation.versions.magic
        if generation.highest_magic(log, batch.base_offset, configured) > OLD:
            converted += 1
        elif batch.magic > OLD:
            unreadable += 1
    return Served(converted=converted, unreadable=unreadable)


def mixed_segments(ended: Ended) -> int:
    """Return how many segments of all replicas have batches of several formats."""
    return sum(
        len({batch.magic for batch in segment}) > 1
        for log in ended.logs.values()
        for segment in log.segments()
    )


def _replicas_cell(ended: Ended) -> Cell:
    cut = sum(one.log_end_offset_before - one.target_offset for one in ended.truncations)
    return Cell(
        result=Result.RIGHT if ended.is_right else Result.WRONG,
        text=f"{'right' if ended.is_right else 'wrong'}, {cut} cut",
        numbers={"cut": cut, "refetched": ended.refetched, "mixed segments": mixed_segments(ended)},
        detail=ended.happened(),
    )


def _client_cell(log: Log, generation: Generation) -> Cell:
    found = served(log, generation)
    is_right = not found.unreadable
    return Cell(
        result=Result.RIGHT if is_right else Result.WRONG,
        text=f"{'right' if is_right else 'wrong'}, {found.converted} of {len(log.batches)} looked "
        "through",
        numbers={"converted": found.converted, "unreadable": found.unreadable},
        detail=(
            f"formats in the log: {', '.join(f'magic {one.magic}' for one in log.batches)}",
            f"sent to an old client as they are, in the new format: {found.unreadable}",
        ),
    )


def _segments_cell(ended: Ended) -> Cell:
    mixed, segments = mixed_segments(ended), len(ended.logs[A].segments())
    return Cell(
        result=Result.WRONG if mixed else Result.RIGHT,
        text=f"{segments} segment{'s' * (segments > 1)}" + (", mixed" if mixed else ""),
        numbers={"segments": segments, "mixed segments": mixed},
        detail=(f"segments with several formats, of all replicas: {mixed}",),
    )


def _row(name: str, question: str, cell: Callable[[str], Cell]) -> Row:
    return Row(name=name, question=question, cells={key: cell(key) for key in RULES})


def _both(scene: Scene, column: str, magics: tuple[int, ...], then: tuple[int, ...]) -> Ended:
    known = formats(column)
    return play(scene, known.of(*magics), then=known.of(*then))


def _mixed_before(column: str) -> Cell:
    """The log went old, new, old, new, old under the release; then the option came."""
    ended = play(flapping(first=B), formats(BASE).of(NEW, OLD))
    log = ended.logs[A].truncate_to(FLAPS - 1)
    return _client_cell(log, formats(column).old)


def scene_rows() -> tuple[Row, ...]:
    """Return the document's scenarios."""
    flap = {key: _both(flapping(), key, (NEW, OLD), (NEW, NEW)) for key in RULES}
    back = {key: _both(downgraded(), key, (NEW,), (OLD,)) for key in RULES}
    taken = {
        key: _both(follower_takes_over(), key, (NEW, OLD, OLD), (NEW, OLD, OLD)) for key in RULES
    }
    return (
        _row(
            "issue 2",
            "A led in the new format, B in the old one: does A find where to truncate?",
            lambda key: _replicas_cell(play(localized_divergence(), formats(key).of(NEW, OLD))),
        ),
        _row(
            "issue 2, HW=0",
            "The same, but A has no high watermark on disk: is what was committed left alone?",
            lambda key: _replicas_cell(play(localized_divergence(0), formats(key).of(NEW, OLD))),
        ),
        _row(
            "four replicas",
            "The same with a gap: C knows nothing of the epochs of A and B. Does D truncate?",
            lambda key: _replicas_cell(play(four_replicas(), formats(key).of(OLD, OLD, NEW, NEW))),
        ),
        _row(
            "issue 1",
            "After a downgrade: can an old client read the whole log?",
            lambda key: _client_cell(back[key].logs[A], formats(key).old),
        ),
        _row(
            "issue 1, moved",
            "A follower fetched old and new batches at once and leads: can an old client read?",
            lambda key: _client_cell(taken[key].logs[C], formats(key).old),
        ),
        _row(
            "mixed before",
            "The log was mixed when the option came: can an old client read it?",
            _mixed_before,
        ),
        _row(
            "downgrade",
            "Which part of what is written after a downgrade is in the old format?",
            lambda key: _written_cell(back[key]),
        ),
        _row(
            "flap",
            f"{FLAPS} changes of the leader during an upgrade: are both logs equal at the end?",
            lambda key: _replicas_cell(flap[key]),
        ),
        _row(
            "flap, segments",
            "How many segments has the log then, and has each one format?",
            lambda key: _segments_cell(flap[key]),
        ),
        _row(
            "moved, segments",
            "Has each segment one format where a follower fetched two formats at once?",
            lambda key: _segments_cell(taken[key]),
        ),
    )


def _written_cell(ended: Ended) -> Cell:
    written = ended.logs[A].batches[2:]
    old = sum(batch.magic == OLD for batch in written)
    return Cell(
        text=f"{old} of {len(written)}", numbers={"old format": old, "written": len(written)}
    )


def machine(column: str) -> Machine:
    """Return two replicas, of which the first writes the new format and the second the old one."""
    return Machine(
        generations=formats(column, FENCING).of(NEW, OLD), records=3, leader_epoch=2, log_size=2
    )


def searched_rows(bounds: Bounds, say: Say) -> tuple[Row, ...]:
    """Return what exhaustive and random schedules say."""
    rows = []
    asked = (
        ("all, agreement", "agreement", "Fenced, elections clean: are equal-looking logs equal?"),
        ("all, formats", "formats-rise", "Fenced, elections clean: does no log's format go back?"),
        ("all, segments", "one-format", "Fenced, elections clean: has each segment one format?"),
    )
    for name, wanted, question in asked if bounds.most_states else ():
        cells = {}
        for key in RULES:
            say(f"every interleaving of {key}: {wanted}")
            cells[key] = explored(machine(key), wanted, bounds)
        rows.append(Row(name=name, question=question, cells=cells))
    if bounds.schedules:
        cells = {}
        for key in RULES:
            say(f"random schedules of {key}")
            brokers = formats(key, FENCING).of(NEW, OLD, NEW)
            cells[key] = drawn(brokers, bounds, is_unclean=False)
        question = "Fenced, elections clean, three replicas: how many random schedules break it?"
        rows.append(Row(name="drawn, clean", question=question, cells=cells))
    return tuple(rows)


def claims(rows: tuple[Row, ...]) -> tuple[Claim, ...]:
    """Return what the document says against what was computed."""
    known = {row.name: row.cells for row in rows}
    end = known["issue 2"][BASE]
    old, gone = known["issue 1"][BASE].numbers["unreadable"], _comes_back()
    return (
        Claim(
            said="in the worst case, old clients will see the new format",
            found=f"on {BASE} after a downgrade an old client gets {old} batches as they are",
            holds=old > 0,
        ),
        Claim(
            said="the log end offset was returned; this resulted in localized log divergence",
            found="; ".join(end.detail),
            holds=end.result is Result.WRONG,
        ),
        _stabilizes("once the update is completed the message format will stabilize"),
        Claim(
            said="the leader could always use the maximum of the last version written and the "
            "configured one",
            found=f"then a downgrade comes into force {gone}",
            holds=gone == "only when the log is empty",
        ),
    )


def _stabilizes(said: str) -> Claim:
    ended = _both(flapping(), BASE, (NEW, OLD), (NEW, NEW))
    magics = [batch.magic for batch in ended.logs[A].batches]
    return Claim(
        said=said,
        found=f"magic in the flap and, after {FLAPS}, once B is upgraded: "
        f"{', '.join(map(str, magics))}",
        holds=ended.is_right and len(set(magics[FLAPS:])) == 1,
    )


def _comes_back() -> str:
    """Return when option 1 writes the old format again in a log that has had the new one."""
    old = formats("max. format").old
    log = _both(downgraded(), "max. format", (NEW,), (OLD,)).logs[A]
    kept = [
        len(log.batches) - gone
        for gone in range(len(log.batches) + 1)
        if old.magic_of_append(_without_first(log, gone), OLD) == OLD
    ]
    return "only when the log is empty" if kept == [0] else f"with {kept} batches left"


def _without_first(log: Log, count: int) -> Log:
    """Return a log of which retention has removed the first batches."""
    kept = log.batches[count:]
    start = kept[0].base_offset if kept else log.log_end_offset
    return Log(batches=kept, log_start_offset=start, log_end_offset=log.log_end_offset)


def compare(bounds: Bounds, say: Say) -> Comparison:
    """Return the comparison."""
    say("the document's scenarios")
    scenes = scene_rows()
    return Comparison(
        document="KAFKA-7601",
        title=TITLE,
        columns=COLUMNS,
        rows=(*scenes, *searched_rows(bounds, say)),
        claims=claims(scenes),
        notes=(
            "A follower that truncates to its high watermark cuts what it may have in common "
            "with the leader: that is the price of an empty epoch cache.",
        ),
    )
