"""Brokers whose present process the controller has never told anything (KIP-380, KAFKA-1120)."""

import time
from collections.abc import Iterable

from kchaos.checkers.acts import TopicPartition
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.links import ApiKey
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.gates import gates
from kchaos.harness.play.play import Play

_ELECTION_S = 20.0
_QUIET_S = 5.0
"""So long a broker is given at least to hear from a controller that demonstrably works."""
_QUIET_TIMES = 10
"""Of what the controller takes for a new topic, which is long where the machine is busy."""


class NobodyDecides(Exception):
    """No controller decides what is due; the message says what that is."""


def uninitialised(play: Play, brokers: Iterable[int]) -> dict[int, str]:
    """Return brokers without a LeaderAndIsr since their process began, each with its facts.

    A broker counts only once the controller has handled everything up to then: it gives a new topic
    its leader, and for a stated time nothing more comes. Without links nobody can say, and none
    is. With KRaft nobody tells a broker anything: it reads the metadata log by itself.

    The `brokers` must be registered and host a replica.

    Raises:
        NobodyDecides: The controller made no leader for a new topic.
    """
    if play.cluster.links is None or play.cluster.is_kraft:
        return {}
    suspects = {
        broker: _in_words(play, broker) for broker in brokers if _is_uninformed(play, broker)
    }
    if not suspects:
        return {}
    began = time.monotonic()
    works = controller_works(play)
    quiet_s = max(_QUIET_S, round(_QUIET_TIMES * (time.monotonic() - began)))
    deadline = time.monotonic() + quiet_s
    await_until(
        lambda: (
            not any(_is_uninformed(play, suspect) for suspect in suspects)
            or time.monotonic() > deadline
        ),
        timeout_s=2 * quiet_s,
        waiting_for="the controller to inform every broker of its replicas",
        last_seen=lambda: suspects,
    )
    return {
        suspect: f"{words}; nor did it {works}, nor for {quiet_s:g} s more"
        for suspect, words in suspects.items()
        if _is_uninformed(play, suspect)
    }


def controller_works(play: Play) -> str:
    """Check that the controller handles events, and return how.

    Raises:
        NobodyDecides: It made no leader for a new topic.
    """
    broker = play.cluster.metadata.controller()
    live = [broker.id for broker in play.cluster.brokers.values() if broker.is_running]
    # The controller tells itself; a broker that it has overlooked would be told by a new topic.
    target = broker if broker in live else live[0]
    topic = f"__settle-probe-{time.monotonic_ns()}"
    play.cluster.metadata.create_topic(topic, [[target]])
    try:
        gates.await_state(play, TopicPartition(topic, 0), leader=target, timeout_s=_ELECTION_S)
    except AwaitTimeout as error:
        raise NobodyDecides(
            f"controller {broker} gave a new topic no leader in {_ELECTION_S:g} s"
        ) from error
    return f"while controller {broker} gave a new topic its leader at once"


def _is_uninformed(play: Play, broker: int) -> bool:
    return not _received(play, broker, ApiKey.LEADER_AND_ISR)


def _received(play: Play, broker: int, api_key: ApiKey) -> int:
    """Return how many such requests the broker's current process got at the link."""
    return sum(
        record.direction == "request" and record.fate in gates.GONE_ON
        for record in gates.since_start(play, broker, api_key)
    )


def _in_words(play: Play, broker: int) -> str:
    """Describe a broker that has received nothing yet."""
    znode = play.cluster.metadata.registration(broker)
    updates = _received(play, broker, ApiKey.UPDATE_METADATA)
    return (
        f"broker {broker} is registered with czxid {None if znode is None else znode.czxid}, and "
        f"its process got no LeaderAndIsr and {updates or 'no'} UpdateMetadata"
    )
