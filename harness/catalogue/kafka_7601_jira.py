"""KAFKA-7601, issue 2 as the Jira tells it: a leader that writes an old format has no epoch."""

import kchaos as k

N, O, CONTROLLER = 1, 2, 0  # noqa: E741 - N writes the new format, O the old one
NEW, OLD = "0.11.0", "0.10.2"


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=CONTROLLER, kafka=kafka),
            k.BrokerSpec(id=N, kafka=kafka, properties={"log.message.format.version": NEW}),
            k.BrokerSpec(id=O, kafka=kafka, properties={"log.message.format.version": OLD}),
        ),
        first_broker=CONTROLLER,
        properties=k.QUICK,
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((N, O),)),
        k.Tell(text="N leads and writes 0-4 in the new format; O has them too"),
        k.Produce(operation="both", topic="t", partition=0, records=5, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(N, O), log_end_offset=5),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(N, O), high_watermark=5),
        k.Tell(text="5-7 reach N alone; N dies, and O, in the ISR, is elected"),
        k.Inject(name="N-O", fault=k.CutLink(source=N, target=O)),
        k.Produce(operation="n-only", topic="t", partition=0, records=3, acks=1),
        k.Inject(name="N-down", fault=k.KillBroker(broker=N)),
        k.AwaitState(topic="t", partition=0, leader=O, isr=(O,)),
        k.Heal(name="N-O"),
        k.Tell(text="O writes 5-8 in the old format, which has no leader epoch"),
        k.Produce(operation="o-only", topic="t", partition=0, records=3, acks=1),
        k.Produce(operation="o-more", topic="t", partition=0, records=1, acks=1),
        k.Tell(text="N returns and asks O where its epoch ended"),
        k.Heal(name="N-down"),
    )


_SOURCE = "KAFKA-7601, issue 2 (fixed in 2.2.1); measured on real brokers"


def _answered(end_offset: int) -> dict[str, dict[str, int]]:
    return {"round": {"follower": N, "leader": O, "requested_epoch": 0, "end_offset": end_offset}}


def _epochs_of_o(*starts: int) -> dict[str, dict[str, object]]:
    return {
        "epochs": {"snapshot": "final", "broker": O, "partition": "t-0", "starts": list(starts)}
    }


KAFKA_7601_JIRA = k.Entry(
    name="KAFKA-7601-jira",
    title="Logs diverge when a new leader writes an older message format",
    story=(
        "N and O run the same release; N writes a format with leader epochs, O an older one "
        "without them, as during a rolling upgrade of the format. Every election is clean. O, "
        "elected, writes records that carry no epoch, so that up to 2.0.0 its epoch cache goes on "
        "saying that N's epoch is the latest. N returns with records that O never had, asks where "
        "its epoch ended, gets the end of O's log, and keeps them. From 2.0.1 on a leader notes "
        "its epoch when it is elected, whatever format it writes (KAFKA-7415), and answers 5. From "
        "2.1.1 on a broker with an old format keeps no epochs at all (KAFKA-7897): the answer is "
        "undefined, and N truncates to its high watermark. Neither is the fix of KAFKA-7601, which "
        "came in 2.2.1: KAFKA-7601-four-replicas still diverges up to 2.2.0. The Jira says that "
        "broker 2 writes epoch 1 in the v2 format; it means the old one."
    ),
    source=_SOURCE,
    cases={"old-leader": "clean elections only; O has no entry for its own epoch"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        ("old-leader", release): k.Expectation(
            safe=False,
            findings=(("divergence", (N, O), 5, 7),),
            witness=(_answered(9), _epochs_of_o(0)),
        )
        for release in ("0.11.0.3", "1.1.1", "2.0.0")
    }
    | {
        ("old-leader", "2.0.1"): k.Expectation(
            safe=True,
            witness=(_answered(5), _epochs_of_o(0, 5)),
            source=f"{_SOURCE}; converges by KAFKA-7415",
        ),
        ("old-leader", "2.1.1"): k.Expectation(
            safe=True,
            witness=(
                _answered(-1),
                _epochs_of_o(),
                {"log": {"broker": N, "pattern": r"[Tt]runcat\w+ .*to( offset)? 5\b"}},
            ),
            source=f"{_SOURCE}; converges by KAFKA-7897",
        ),
    },
    default_releases=("1.1.1", "2.0.1", "2.1.1"),
)
