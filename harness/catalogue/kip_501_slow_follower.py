"""KIP-501's other half: followers that do not ask in time are rightly dropped."""

import kchaos as k
from kchaos.clusters.agent.points import SEND_FETCH
from kchaos.harness.catalogue.kip_501 import CONTROLLER, LEADER, OTHER, begun, cluster_of, write

_SLOW = "slow-with-what-they-got"


def _slow(follower: int) -> k.Inject:
    """Hold the follower's fetcher thread before its next fetch."""
    name = f"slow-{follower}"
    return k.Inject(name=name, fault=k.HoldPoint(name=name, broker=follower, point=SEND_FETCH))


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _SLOW
    return (
        *begun(),
        k.Tell(text="both followers live, and do not come to their next fetch"),
        _slow(CONTROLLER),
        _slow(OTHER),
        k.AwaitHeld(name=f"slow-{CONTROLLER}"),
        k.AwaitHeld(name=f"slow-{OTHER}"),
        write("alone", acks=1, records=2),
        k.AwaitState(topic="t", partition=0, leader=LEADER, isr=(LEADER,)),
        k.Tell(text="the leader dies, and the followers go on: neither may lead"),
        k.Inject(name="down", fault=k.KillBroker(broker=LEADER)),
        k.AwaitDecision(topic="t", partition=0, leader=-1),
        k.Heal(name=f"slow-{CONTROLLER}"),
        k.Heal(name=f"slow-{OTHER}"),
    )


_HELD = tuple(
    {"hit": {"point": SEND_FETCH, "broker": follower, "fate": "held"}}
    for follower in (CONTROLLER, OTHER)
)

KIP_501_SLOW_FOLLOWER = k.Entry(
    name="KIP-501-slow-follower",
    title="Live followers that are slow with what they fetched are rightly dropped",
    story=(
        "The steps of KIP-501-slow-reads, but it is the followers that are slow: their fetcher "
        "threads are held between one fetch and the next. The leader has answered all that they "
        "asked, they lack what was written since, and after replica.lag.time.max.ms it shrinks the "
        "ISR to itself. That the partition has no leader when it dies is the price of clean "
        "elections, and no fault: KIP-501 keeps a follower only if a fetch of its waits at "
        "the leader, and here none does."
    ),
    source="KIP-501, motivation, second reason to be out of sync; measured on real brokers",
    cases={_SLOW: "the followers do not come to their next fetch; then the leader dies"},
    cluster=cluster_of,
    steps=_steps,
    expectations={
        (_SLOW, release): k.Expectation(
            safe=True,
            witness=(
                *_HELD,
                {"log": {"broker": LEADER, "pattern": "Shrinking ISR from .* to 1[. ]"}},
            ),
        )
        for release in ("2.8.2", "3.9.1")
    },
)
