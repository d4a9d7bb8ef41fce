"""KIP-279, backward compatibility: a leader that has no leader epochs at all."""

import kchaos as k

CONTROLLER, N, O = 0, 1, 2  # noqa: E741 - N writes the new format, O the old one


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=CONTROLLER, kafka=kafka),
            k.BrokerSpec(id=N, kafka=kafka, properties={"log.message.format.version": "0.11.0"}),
            k.BrokerSpec(id=O, kafka=kafka, properties={"log.message.format.version": "0.10.2"}),
        ),
        first_broker=CONTROLLER,
        properties=k.QUICK,
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((O, N),)),
        k.Tell(text="O leads and writes 0-10 in the old format, which has no leader epochs"),
        k.Produce(operation="both", topic="t", partition=0, records=11, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(O, N), log_end_offset=11),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(O, N), high_watermark=11),
        k.Tell(text="N is made the preferred replica, leads, and writes 11-20, which O never gets"),
        k.ReorderReplicas(topic="t", partition=0, replicas=(N, O)),
        k.Inject(name="N-O", fault=k.CutLink(source=N, target=O)),
        k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=N),
        k.AwaitFollowing(topic="t", partition=0, follower=O, leader=N),
        k.Produce(operation="n-only", topic="t", partition=0, records=10, acks=1),
        k.Tell(text="N dies; O is elected, which has no epoch in its log, and writes 11-13"),
        k.Inject(name="N-down", fault=k.KillBroker(broker=N)),
        k.AwaitState(topic="t", partition=0, leader=O, isr=(O,)),
        k.Heal(name="N-O"),
        k.Produce(operation="o-only", topic="t", partition=0, records=3, acks=1),
        k.Tell(text="N returns, and asks for the end of an epoch: O tracks none"),
        k.Heal(name="N-down"),
    )


_RELEASES = ("1.1.1", "2.0.0", "2.1.1")

KIP_279_UNTRACKED = k.Entry(
    name="KIP-279-untracked",
    title="A leader without leader epochs: its follower truncates to the high watermark",
    story=(
        "By KIP-279 a leader that does not track leader epochs yet answers a question for an "
        "epoch's end with an undefined offset. The follower then truncates to its high watermark, "
        "as before KIP-101. O has only written an old format, so its log has no epochs. N has "
        "written 11-20 in a new format and comes back: O's answer is undefined, N truncates to 11, "
        "its high watermark, and takes O's records. 2.0.1 and 2.1.0 are no example. There a leader "
        "notes its own epoch when it is elected, whatever format it writes (KAFKA-7415). It "
        "answers an older epoch with the start of that one."
    ),
    source="KIP-279, Proposed Changes (backward compatibility)",
    cases={"old-format": "the leader has only ever written an old message format"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        ("old-format", release): k.Expectation(
            safe=True,
            witness=(
                {"round": {"follower": N, "leader": O, "end_offset": -1}},
                {"epochs": {"snapshot": "final", "broker": O, "partition": "t-0", "starts": []}},
                {"log": {"broker": N, "pattern": r"[Tt]runcat\w+ .*to( offset)? 11\b"}},
            ),
        )
        for release in _RELEASES
    },
)
