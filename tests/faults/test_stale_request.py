"""A late control request on real brokers: made for one generation, delivered to the next."""

import contextlib
from typing import Any

import pytest

import kchaos as k

pytestmark = pytest.mark.cluster

STALE, UNKNOWN_ERROR = 77, -1


def answered(journal: k.MemoryJournal) -> list[dict[str, Any]]:
    """Each late request's own fields, and those of what was seen when it was answered."""
    made = [entry for what, entry in journal.entries if what == "StaleRequest"]
    seen = [entry for what, entry in journal.entries if what == "stale-request"]
    return [act | answer for act, answer in zip(made, seen, strict=True)]


def answers(journal: k.MemoryJournal) -> dict[tuple[str, int, int | None], int]:
    """By API, version and broker epoch as the request was made: the error of the answer."""
    return {
        (late["api"], late["version"], late["broker_epoch"]): late["answer"]["error_code"]
        for late in answered(journal)
    }


def requests(topic: Any, **fields: Any) -> list[k.StaleRequest]:
    subject = ((topic.name, 0),)
    return [
        k.StaleRequest(api="LeaderAndIsr", broker=1, partitions=subject, **fields),
        k.StaleRequest(api="UpdateMetadata", broker=1, partitions=subject, **fields),
        k.StaleRequest(
            api="StopReplica", broker=1, partitions=subject, of_ended_generation=True, **fields
        ),
        k.StaleRequest(api="ControlledShutdown", broker=1, **fields),
    ]


@pytest.mark.parametrize(
    ("release", "versions", "error_code"),
    [("2.1.1", [1, 4, 0, 1], 0), ("2.2.2", [2, 5, 1, 2], STALE), ("2.8.2", [2, 7, 1, 2], STALE)],
)
def test_a_request_to_an_earlier_generation_is_refused_from_2_2_on(
    release, versions, error_code, cluster, journal, topic, observe
):
    created = topic(0, 1)
    earlier = observe(1).czxid
    with requests(created)[2].inject(cluster, journal):
        pass
    assert journal.entries[-1] == ("stale-request-lost", {"target": 1, "api": "StopReplica"})
    with contextlib.ExitStack() as late:
        # Delivered in the order in which they are listed, the last entered first.
        for request in reversed(requests(created)):
            late.enter_context(request.inject(cluster, journal))
        with k.FastBounce(broker=1).inject(cluster, journal):
            pass
        created.await_state(leader=0, isr=[0, 1])
    told = answered(journal)
    assert [late["version"] for late in told] == versions
    assert [late["answer"]["error_code"] for late in told] == [error_code] * 4
    assert {late["generation"] for late in told} == {earlier}
    assert {late["broker_epoch"] for late in told} == ({None} if error_code == 0 else {earlier})
    assert {late["in_force"] for late in told} == {observe(1).czxid}
    if error_code == 0:
        # It is told to be shutting down: another bounce brings it back.
        with k.FastBounce(broker=1).inject(cluster, journal):
            pass


@pytest.mark.parametrize(("release", "error_code"), [("2.2.2", UNKNOWN_ERROR), ("2.8.2", 0)])
def test_an_epoch_ahead_of_the_brokers_own_fails_up_to_2_5_0_and_is_obeyed_later(
    release, error_code, cluster, journal, topic
):
    created = topic(0, 1)
    for request in requests(created, epoch="ahead")[:2]:
        with request.inject(cluster, journal):
            pass
    assert set(answers(journal).values()) == {error_code}


@pytest.mark.parametrize("release", ["2.2.2"])
def test_a_request_that_says_nothing_of_a_generation_is_obeyed(release, cluster, journal, topic):
    created = topic(0, 1)
    for request in requests(created, epoch="unknown")[:2]:
        with request.inject(cluster, journal):
            pass
    assert answers(journal) == {("LeaderAndIsr", 2, -1): 0, ("UpdateMetadata", 5, -1): 0}


@pytest.mark.parametrize("release", ["2.1.1"])
def test_an_epoch_in_a_version_that_has_none_is_refused_before_anything_is_sent(
    release, cluster, journal, topic
):
    created = topic(0, 1)
    late = k.StaleRequest(
        api="StopReplica", broker=1, partitions=((created.name, 0),), epoch="unknown"
    )
    with pytest.raises(k.FaultError, match="StopReplica v0, which has no broker epoch"):
        late.inject(cluster, journal).__enter__()
    assert journal.entries == []
