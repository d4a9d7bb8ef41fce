"""KIP-279's scenarios, with the document's own offsets and epochs: A is broker 0, B is broker 1."""

from enum import StrEnum

from kchaos.checkers.acts import CutLink, HealLink, Hold, ReleaseHold
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.events import BrokerRegistered, BrokerUnregistered, Event
from kchaos.studies.documents.scene_events import (
    CONTROLLER,
    cluster,
    leads,
    started,
    stopped,
    writes,
)
from kchaos.studies.documents.scenes import Scene

BASE = "1.1.1"
"""The release that the document is about."""
A, B, C = 0, 1, 2


def scenario_1(generation: Generation, n: int) -> Scene:
    """Return scenario 1: B leads in epoch 2 and writes 11 to n, A leads in epoch 3 and writes 30.

    Where the preferred election takes A out of the ISR, A cannot lead in epoch 3.
    """
    isr = generation.proposed.isr_of_preferred((B, A), A)
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


class Common(StrEnum):
    """The common part of two brokers' logs before they lead in turns."""

    NOTHING = "nothing"
    RECORD = "record"
    """A record of the epoch in which the first of them goes on alone."""
    EPOCH = "epoch"
    """The same, but the epoch grows when the other dies, as real controllers have it."""


def failovers(
    generation: Generation,
    changes: int,
    *,
    common: Common = Common.NOTHING,
    is_checkpointed: bool = False,
) -> Scene:
    """Return unclean failovers: A and B lead in turns, each alone, and at last both are up.

    Args:
        generation: What brokers do.
        changes: How often another one leads; in scenario 3 three times: A leads in epoch 0, B in
            1, A in 2, B in 3.
        common: What they share at first; in scenario 3 nothing.
        is_checkpointed: Whether a leader that stops has its high watermark on disk.
    """
    unclean = {"unclean_leader_election": True}
    is_alone = common is Common.NOTHING
    events: list[Event] = cluster(BASE, (A, B), (A,) if is_alone else (A, B), **unclean)
    if not is_alone:
        events += [leads(A, 0, (A, B)), writes("both", A), *stopped(B, clean=is_checkpointed)]
    first_epoch = 1 if common is Common.EPOCH else 0
    for turn in range(changes + 1):
        leader = turn % 2
        if turn:
            events += started(leader, czxid=10 + turn, release=BASE, **unclean)
        events += [leads(leader, first_epoch + turn, (leader,)), writes(f"w{turn}", leader)]
        if turn < changes:
            events += stopped(leader, clean=is_checkpointed)
    back = (changes + 1) % 2
    return Scene(before=events, then=started(back, czxid=50, release=BASE, **unclean))


def late_high_watermark(generation: Generation) -> Scene:
    """Return KIP-101's scenario 1 with its second record in an epoch of its own.

    C leads first; A and B have both records, and have not heard that the second is committed. C
    dies, B leads and answers A, and dies before A has fetched anything; A is elected cleanly.
    """
    before: list[Event] = [
        *cluster(BASE, (C, A, B), (A, B, C)),
        leads(C, 0, (C, A, B)),
        writes("m1", C, acks=-1),
        leads(C, 1, (C, A, B)),
        Hold(name="late", api="Fetch", target=C, direction="response", fetch_offset_at_least=2),
        writes("m2", C, acks=-1),
        *stopped(C, clean=False),
        Hold(name="fetch", api="Fetch", source=A, target=B, direction="request"),
    ]
    then: list[Event] = [
        leads(B, 2, (A, B)),
        *stopped(B, clean=False),
        leads(A, 3, (A,)),
        ReleaseHold(name="fetch"),
        ReleaseHold(name="late"),
        *started(B, czxid=11, release=BASE),
        *started(C, czxid=12, release=BASE),
    ]
    return Scene(before=before, then=then)
