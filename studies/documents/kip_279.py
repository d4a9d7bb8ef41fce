"""KIP-279's proposal beside the four alternatives that it rejects, and beside what was released.

The columns are proposals (`kip_279_alternatives`) laid over one release, by default the
one that the document is about. Each of its scenarios is played with its own numbers.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.studies.documents import kip_279_claims, kip_279_compaction
from kchaos.studies.documents.comparison import Cell, Column, Comparison, Row
from kchaos.studies.documents.kip_279_columns import (
    COLUMNS,
    FAILOVERS,
    FENCED,
    TRUNCATING,
    cell_of,
    generations,
    machine,
)
from kchaos.studies.documents.kip_279_scenes import (
    BASE,
    Common,
    failovers,
    late_high_watermark,
    scenario_1,
    scenario_2,
)
from kchaos.studies.documents.proposal import Proposal, with_proposals
from kchaos.studies.documents.recorded import rows_of
from kchaos.studies.documents.scenes import Scene
from kchaos.studies.documents.searching import Say, SearchBounds, drawn, explored

TITLE = "where a follower truncates after fast leader changes"


def compare_run(run: Path, say: Say) -> Comparison:
    """Return what each alternative would have done in a recorded run.

    Pushing the old leader out of the ISR would have changed the elections, and cannot be asked.

    Raises:
        CheckError: The run cannot be read, or has nothing to compare.
    """
    columns = {key: partial(_laid, proposals=laid) for key, laid in TRUNCATING.items()}
    rows = rows_of(run, {**columns, "released": partial(_laid, proposals=None)}, say)
    shown = [
        replace(column, title=column.title.replace(BASE, "its release"))
        for column in COLUMNS
        if column.key in columns
    ]
    shown.append(Column(key="released", title="its release as it is"))
    return Comparison(document="KIP-279", title=TITLE, columns=tuple(shown), rows=rows)


def _laid(start: StartBroker, proposals: tuple[Proposal, ...] | None) -> Generation:
    """Return what a broker of a run does in a column; None is what it does as released."""
    generation = generation_for(
        start.release,
        inter_broker_protocol=start.inter_broker_protocol,
        message_format=start.message_format,
        without=() if proposals is None else ["KIP-279"],
    )
    return with_proposals(generation, *(proposals or ()))


def _row(
    name: str, question: str, scene: Callable[[Generation], Scene], *, brokers: int = 2
) -> Row:
    cells = {
        key: cell_of(key, scene(generation), generation, brokers)
        for key, generation in generations().items()
    }
    return Row(name=name, question=question, cells=cells)


def _turns_name(changes: int) -> str:
    return f"3, {changes} failover{'s' if changes > 1 else ''}"


def scene_rows() -> tuple[Row, ...]:
    """Return the document's scenarios, and more failovers of its last."""
    rows = [
        _row(
            f"1, n={n}",
            f"B wrote 11 to {n} in epoch 2, A leads in epoch 3: does B take over A's log?",
            partial(scenario_1, n=n),
        )
        for n in (15, 20, 25)
    ]
    rows.append(_row("2", "A restarts with HW 11: are 11 to 20 left alone?", scenario_2))
    for high_watermark in (0, 2):
        turns = partial(failovers, changes=3, is_checkpointed=high_watermark > 0)
        question = f"3 failovers, A has HW {high_watermark} on disk: does A take over B's log?"
        rows.append(_row(f"3, HW={high_watermark}", question, turns))
    for changes in FAILOVERS:
        turns = partial(failovers, changes=changes, common=Common.RECORD)
        question = f"Failovers after a record that both have: {changes}; is the other log taken?"
        rows.append(_row(_turns_name(changes), question, turns))
    rows.append(
        _row(
            "2, late HW",
            "Scenario 2 with a committed record of another epoch above A's HW: is it kept?",
            late_high_watermark,
            brokers=3,
        )
    )
    return tuple(rows)


def _bits_row(name: str, question: str, measured: Row) -> Row:
    """Return the bits that a row's rounds took."""
    cells = {
        key: Cell(text=f"{cell.numbers['extra bits']:+}", numbers=cell.numbers)
        for key, cell in measured.cells.items()
    }
    return Row(name=name, question=question, cells=cells)


def bits_rows(scenes: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return how many more bits go over the wire than KIP-101's, in four scenarios."""
    known = {row.name: row for row in scenes}
    return tuple(
        _bits_row(f"bits, {name}", "Bits of one partition beyond one round of KIP-101", known[name])
        for name in ("2", "1, n=20", "3, 3 failovers", "3, 5 failovers")
    )


def searched_rows(bounds: SearchBounds, say: Say) -> tuple[Row, ...]:
    """Return what exhaustive and random schedules say, over two releases."""
    rows = []
    for base in (BASE, FENCED) if bounds.most_states else ():
        cells = {}
        for key, generation in generations(base).items():
            say(f"every interleaving of {key} over {base}")
            cells[key] = explored(machine(generation), "agreement", bounds)
        question = f"Over {base}, elections clean: are logs that look equal always equal?"
        rows.append(Row(name=f"all, {base}", question=question, cells=cells))
    for is_unclean in (False, True) if bounds.schedules else ():
        cells = {}
        word = "unclean" if is_unclean else "clean"
        for key, generation in generations(FENCED).items():
            say(f"random schedules of {key}, elections {word}")
            brokers = dict.fromkeys((0, 1), generation)
            cells[key] = drawn(brokers, bounds, is_unclean=is_unclean)
        question = f"Over {FENCED}, elections {word}: how many random schedules break something?"
        rows.append(Row(name=f"random, {word}", question=question, cells=cells))
    return tuple(rows)


def compare(bounds: SearchBounds, say: Say) -> Comparison:
    """Return the comparison."""
    say("the document's scenarios")
    scenes = scene_rows()
    rows = (*scenes, *bits_rows(scenes), *searched_rows(bounds, say))
    claims = (*kip_279_claims.scene_claims(scenes), *kip_279_claims.searched_claims(bounds, say))
    say("compaction")
    return Comparison(
        document="KIP-279",
        title=TITLE,
        columns=COLUMNS,
        rows=rows,
        claims=claims,
        further=(kip_279_compaction.compare(),),
    )
