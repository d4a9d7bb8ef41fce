"""KIP-279's proposal beside the four alternatives that it rejects, and beside what was released.

The columns are rules over one release (`checkers.model.rules.kip_279_alternatives`), by default the
one that the document is about. Each of its scenarios is played with its own numbers.
"""

from collections.abc import Mapping

from kchaos.checkers.acts import CutLink, HealLink, Hold, ReleaseHold
from kchaos.checkers.alternatives.comparison import Cell, Column, Comparison, Result, Row
from kchaos.checkers.alternatives.scenes import (
    CONTROLLER,
    Scene,
    cluster,
    leads,
    play,
    started,
    stopped,
    writes,
)
from kchaos.checkers.alternatives.searching import Bounds, Say
from kchaos.checkers.model.events import BrokerRegistered, BrokerUnregistered, Event
from kchaos.checkers.model.generation import Generation
from kchaos.checkers.model.generations import generation_for
from kchaos.checkers.model.rules.kip_279_alternatives import (
    ALTERNATIVE_1,
    ALTERNATIVE_2,
    AS_WRITTEN,
    HIGH_WATERMARK_EPOCH,
    OLD_LEADER_LEAVES,
)

TITLE = "where a follower truncates after fast leader changes"
BASE = "1.1.1"
SHIPPED = "2.0.1"
A, B = 0, 1

COLUMNS = (
    Column(key="KIP-101", title=f"{BASE}: the leader answers without an epoch"),
    Column(key="proposal", title=f"{BASE} with the proposal as it is written"),
    Column(key="alt. 1", title=f"{BASE} with alternative 1: an error, then the next epoch below"),
    Column(key="alt. 2", title=f"{BASE} with alternative 2: all epochs in one request"),
    Column(key="clean 1", title=f"{BASE} that asks for the epoch of its high watermark"),
    Column(key="clean 2", title=f"{BASE} whose preferred election drops the old leader"),
    Column(key=SHIPPED, title="what was released, with KAFKA-7415"),
)


def generations() -> Mapping[str, Generation]:
    """Return what a broker does in each column."""
    rules = {
        "proposal": AS_WRITTEN,
        "alt. 1": ALTERNATIVE_1,
        "alt. 2": ALTERNATIVE_2,
        "clean 1": HIGH_WATERMARK_EPOCH,
        "clean 2": OLD_LEADER_LEAVES,
    }
    found = {key: generation_for(BASE, also=[rule.name]) for key, rule in rules.items()}
    return {"KIP-101": generation_for(BASE), **found, SHIPPED: generation_for(SHIPPED)}


def scenario_1(generation: Generation, n: int) -> Scene:
    """Return scenario 1: B leads in epoch 2 and writes 11 to n, A leads in epoch 3 and writes 30.

    Where the preferred election takes A out of the ISR, A cannot lead in epoch 3.
    """
    isr = generation.isr_of_preferred((B, A), A)
    before: list[Event] = [
        *cluster(BASE, (B, A), (A, B)),
        leads(A, 1, (B, A)),
        writes("a1", A, 11),
        CutLink(source=A, target=B),
        writes("a2", A, 10),
        leads(B, 2, isr),
        writes("b", B, n - 10),
        CutLink(source=CONTROLLER, target=B),
        BrokerUnregistered(broker=B),
    ]
    then: list[Event] = [
        HealLink(source=CONTROLLER, target=B),
        HealLink(source=A, target=B),
        BrokerRegistered(broker=B, czxid=11),
    ]
    if A in isr:
        return Scene(before=[*before, leads(A, 3, (A,)), writes("a3", A, 10)], then=then)
    notes = ("A is in no ISR and is not elected: nobody leads until B is back",)
    return Scene(before=[*before, leads(-1, 3, isr)], then=[*then, leads(B, 4, isr)], notes=notes)


def scenario_2(generation: Generation) -> Scene:
    """Return scenario 2: both have 0 to 20 of epoch 1, A's high watermark is 11, and A restarts."""
    before: list[Event] = [
        *cluster(BASE, (B, A), (A, B)),
        leads(B, 1, (B, A)),
        writes("b1", B, 11),
        Hold(name="answer", api="Fetch", source=A, direction="response", fetch_offset_at_least=21),
        writes("b2", B, 10),
        *stopped(A, clean=False, high_watermark=11),
        leads(B, 1, (B,)),
        ReleaseHold(name="answer"),
    ]
    return Scene(before=before, then=started(A, czxid=11, release=BASE))


def failovers(
    generation: Generation, leaders: int, *, is_common: bool, is_checkpointed: bool
) -> Scene:
    """Return unclean failovers: A and B lead in turns, each alone, and at last both are up.

    Args:
        generation: What brokers do.
        leaders: How often one leads; scenario 3 has 4: A in epoch 0, B in 1, A in 2, B in 3.
        is_common: Whether both first get a record of one epoch that both know.
        is_checkpointed: Whether a leader that stops has its high watermark on disk.
    """
    unclean = {"unclean_leader_election": True}
    events: list[Event] = cluster(BASE, (A, B), (A, B) if is_common else (A,), **unclean)
    epoch = 0
    if is_common:
        events += [leads(A, 0, (A, B)), writes("both", A), *stopped(B, clean=is_checkpointed)]
        epoch = 1
    for turn in range(leaders):
        leader = turn % 2
        if turn:
            events += started(leader, czxid=10 + turn, release=BASE, **unclean)
        events += [leads(leader, epoch + turn, (leader,)), writes(f"w{turn}", leader)]
        if turn < leaders - 1:
            events += stopped(leader, clean=is_checkpointed)
    back = leaders % 2
    return Scene(before=events, then=started(back, czxid=50, release=BASE, **unclean))


def cell_of(scene: Scene, generation: Generation) -> Cell:
    """Return what came of a scene."""
    ended = play(scene, {A: generation, B: generation})
    asked = [one for one in ended.rounds if one.requested_epoch >= 0]
    rounds = len(asked)
    detail = [*scene.notes]
    for one in asked:
        epoch = "" if one.answered_epoch is None else f"epoch {one.answered_epoch}, "
        end = "unknown" if one.end_offset < 0 else str(one.end_offset)
        detail.append(
            f"{'AB'[one.follower]} asks for epoch {one.requested_epoch}: {epoch}end {end}"
        )
    detail += [f"{'AB'[cut.broker]} truncates to {cut.target_offset}" for cut in ended.truncations]
    if ended.refetched:
        detail.append(f"{ended.refetched} committed records were cut and had to be fetched again")
    if ended.difference:
        detail.append(ended.difference)
    said = "round" if rounds == 1 else "rounds"
    return Cell(
        result=Result.RIGHT if ended.is_right else Result.WRONG,
        text=f"{'right' if ended.is_right else 'wrong'}, {rounds} {said}",
        numbers={"rounds": rounds, "refetched": ended.refetched},
        detail=tuple(detail),
    )


def scene_rows() -> tuple[Row, ...]:
    """Return the document's scenarios."""
    known = generations()
    rows = []
    for n in (15, 20, 25):
        cells = {key: cell_of(scenario_1(one, n), one) for key, one in known.items()}
        rows.append(Row(name=f"1, n={n}", question="Scenario 1: who has what?", cells=cells))
    cells = {key: cell_of(scenario_2(one), one) for key, one in known.items()}
    rows.append(Row(name="2", question="Scenario 2: A restarts.", cells=cells))
    for high_watermark in (0, 2):
        cells = {
            key: cell_of(
                failovers(one, 4, is_common=False, is_checkpointed=high_watermark > 0), one
            )
            for key, one in known.items()
        }
        rows.append(Row(name=f"3, HW={high_watermark}", question="Scenario 3.", cells=cells))
    return tuple(rows)


def compare(bounds: Bounds, say: Say) -> Comparison:
    """Return the comparison."""
    say("KIP-279: the document's scenarios")
    return Comparison(document="KIP-279", title=TITLE, columns=COLUMNS, rows=scene_rows())
