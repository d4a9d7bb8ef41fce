"""KAFKA-7601's scenarios: A is the document's broker 1 with the new format, B its broker 2."""

from kchaos.checkers.acts import CutLink, HealLink, PauseBroker, ResumeBroker
from kchaos.studies.documents.scene_events import cluster, leads, started, stopped, writes
from kchaos.studies.documents.scenes import Scene, Step

BASE = "2.0.0"
"""The release that the document is about."""
A, B, C, D = 0, 1, 2, 3
FLAPS = 6


def localized_divergence(high_watermark: int = 5) -> Scene:
    """Return the document's scenario: A leads in epoch 0, B in epoch 1 in the old format.

    A has three records that B never got, as in every run on real brokers that shows it.

    Args:
        high_watermark: What A has on disk when it dies; 5 is what it knows.
    """
    before: list[Step] = [
        *cluster(BASE, (A, B), (A, B)),
        leads(A, 0, (A, B)),
        writes("a", A, 5, acks=-1),
        CutLink(source=A, target=B),
        writes("lost", A, 3),
        *stopped(A, clean=False, high_watermark=high_watermark),
        HealLink(source=A, target=B),
        leads(B, 1, (B,)),
        writes("b", B, 3),
        writes("more", B),
    ]
    return Scene(before=before, then=started(A, czxid=11, release=BASE))


def four_replicas() -> Scene:
    """Return the schedule that later releases need: A and B have the old format, C and D the new.

    C leads, then A, of whose last records only D gets a copy; A and D die, B leads, then C. D comes
    back and asks C for an epoch of which C knows the start and not the end.
    """
    everyone = (A, B, C, D)
    before: list[Step] = [
        *cluster(BASE, everyone, everyone),
        leads(C, 0, everyone),
        writes("c", C, 5, acks=-1),
        leads(A, 1, everyone),
        writes("a", A, 2, acks=-1),
        PauseBroker(broker=B),
        PauseBroker(broker=C),
        writes("lost", A, 3),
        *stopped(A, clean=False, high_watermark=7),
        *stopped(D, clean=False, high_watermark=7),
        ResumeBroker(broker=B),
        ResumeBroker(broker=C),
        leads(B, 2, (B, C)),
        writes("b", B, 3),
        *stopped(B, clean=True),
        leads(C, 3, (C,)),
        writes("more", C, 2),
    ]
    return Scene(before=before, then=started(D, czxid=11, release=BASE))


def flapping(first: int = A) -> Scene:
    """Return the benign case: A and B lead in turns, then B is upgraded and they go on.

    Args:
        first: Who leads first.
    """
    before: list[Step] = [*cluster(BASE, (A, B), (A, B))]
    for turn in range(FLAPS):
        leader = (first + turn) % 2
        before += [leads(leader, turn, (A, B)), writes(f"w{turn}", leader, acks=-1)]
    then: list[Step] = [
        *stopped(B, clean=True),
        *started(B, czxid=11, release=BASE),
        leads(B, FLAPS, (A, B)),
        writes("after-1", B, acks=-1),
        leads(A, FLAPS + 1, (A, B)),
        writes("after-2", A, acks=-1),
    ]
    return Scene(before=before, then=then)


def downgraded(formats: int = 2) -> Scene:
    """Return a broker that writes so many batches, restarts in another format and writes again."""
    before: list[Step] = [*cluster(BASE, (A,), (A,)), leads(A, 0, (A,))]
    before += [writes(f"first-{number}", A) for number in range(formats)]
    then: list[Step] = [
        *stopped(A, clean=True),
        *started(A, czxid=11, release=BASE),
        leads(A, 1, (A,)),
        *(writes(f"second-{number}", A) for number in range(formats)),
    ]
    return Scene(before=before, then=then)


def follower_takes_over() -> Scene:
    """Return a follower that fetches two formats at once, and then leads: B wrote, then A did."""
    before: list[Step] = [
        *cluster(BASE, (A, B, C), (A, B, C)),
        leads(B, 0, (A, B, C)),
        PauseBroker(broker=C),
        writes("b", B),
        leads(A, 1, (A, B)),
        writes("a", A),
    ]
    then: list[Step] = [ResumeBroker(broker=C), leads(C, 2, (A, B, C))]
    return Scene(before=before, then=then)
