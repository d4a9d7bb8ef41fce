"""KAFKA-7601's two options beside what was: forbid a downgrade of the format, or make it safe.

The columns are rules over the release that the document is about, for brokers of two formats: magic
2 is 0.11's, magic 1 is 0.10's and has no leader epoch.
"""

from collections.abc import Callable

from kchaos.studies.documents.comparison import Cell, Comparison, Row
from kchaos.studies.documents.kafka_7601_claims import claims
from kchaos.studies.documents.kafka_7601_columns import (
    COLUMNS,
    FENCING,
    NEW,
    OLD,
    PROPOSED,
    client_cell,
    formats,
    in_both,
    replicas_cell,
    segments_cell,
    written_cell,
)
from kchaos.studies.documents.kafka_7601_scenes import (
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
from kchaos.studies.documents.scenes import play
from kchaos.studies.documents.searching import Say, SearchBounds, drawn, explored
from kchaos.studies.explore.bounds import Machine

TITLE = "what becomes of a log whose message format goes back"


def _row(name: str, question: str, cell: Callable[[str], Cell]) -> Row:
    return Row(name=name, question=question, cells={key: cell(key) for key in PROPOSED})


def _mixed_before(column: str) -> Cell:
    """Return the cell of a log that went old, new, old, new, old before the option came."""
    ended = play(flapping(first=B), formats(BASE).of(NEW, OLD))
    log = ended.logs[A].truncate_to(FLAPS - 1)
    return client_cell(log, formats(column).old)


def scene_rows() -> tuple[Row, ...]:
    """Return the document's scenarios."""
    flap = {key: in_both(flapping(), key, (NEW, OLD), (NEW, NEW)) for key in PROPOSED}
    back = {key: in_both(downgraded(), key, (NEW,), (OLD,)) for key in PROPOSED}
    taken = {
        key: in_both(follower_takes_over(), key, (NEW, OLD, OLD), (NEW, OLD, OLD))
        for key in PROPOSED
    }
    return (
        _row(
            "issue 2",
            "A led in the new format, B in the old one: does A find where to truncate?",
            lambda key: replicas_cell(play(localized_divergence(), formats(key).of(NEW, OLD))),
        ),
        _row(
            "issue 2, HW=0",
            "The same, but A has no high watermark on disk: is what was committed left alone?",
            lambda key: replicas_cell(play(localized_divergence(0), formats(key).of(NEW, OLD))),
        ),
        _row(
            "four replicas",
            "The same with a gap: C knows nothing of the epochs of A and B. Does D truncate?",
            lambda key: replicas_cell(play(four_replicas(), formats(key).of(OLD, OLD, NEW, NEW))),
        ),
        _row(
            "issue 1",
            "After a downgrade: can an old client read the whole log?",
            lambda key: client_cell(back[key].logs[A], formats(key).old),
        ),
        _row(
            "issue 1, moved",
            "A follower fetched old and new batches at once and leads: can an old client read?",
            lambda key: client_cell(taken[key].logs[C], formats(key).old),
        ),
        _row(
            "mixed before",
            "The log was mixed when the option came: can an old client read it?",
            _mixed_before,
        ),
        _row(
            "downgrade",
            "Which part of what is written after a downgrade is in the old format?",
            lambda key: written_cell(back[key]),
        ),
        _row(
            "flap",
            f"{FLAPS} changes of the leader during an upgrade: are both logs equal at the end?",
            lambda key: replicas_cell(flap[key]),
        ),
        _row(
            "flap, segments",
            "How many segments has the log then, and has each one format?",
            lambda key: segments_cell(flap[key]),
        ),
        _row(
            "moved, segments",
            "Has each segment one format where a follower fetched two formats at once?",
            lambda key: segments_cell(taken[key]),
        ),
    )


def machine(column: str) -> Machine:
    """Return two replicas, of which the first writes the new format and the second the old one."""
    return Machine(
        generations=formats(column, FENCING).of(NEW, OLD), records=3, leader_epoch=2, log_size=2
    )


def searched_rows(bounds: SearchBounds, say: Say) -> tuple[Row, ...]:
    """Return what exhaustive and random schedules say."""
    rows = []
    asked = (
        ("all, agreement", "agreement", "Fenced, elections clean: are equal-looking logs equal?"),
        ("all, formats", "formats-rise", "Fenced, elections clean: does no log's format go back?"),
        ("all, segments", "one-format", "Fenced, elections clean: has each segment one format?"),
    )
    for name, wanted, question in asked if bounds.most_states else ():
        cells = {}
        for key in PROPOSED:
            say(f"every interleaving of {key}: {wanted}")
            cells[key] = explored(machine(key), wanted, bounds)
        rows.append(Row(name=name, question=question, cells=cells))
    if bounds.schedules:
        cells = {}
        for key in PROPOSED:
            say(f"random schedules of {key}")
            brokers = formats(key, FENCING).of(NEW, OLD, NEW)
            cells[key] = drawn(brokers, bounds, is_unclean=False)
        question = "Fenced, elections clean, three replicas: how many random schedules break it?"
        rows.append(Row(name="random, clean", question=question, cells=cells))
    return tuple(rows)


def compare(bounds: SearchBounds, say: Say) -> Comparison:
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
            "with the leader. That is the price of an empty epoch cache.",
        ),
    )
