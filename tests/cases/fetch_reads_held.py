"""A follower whose fetch has arrived and is not read yet leaves the ISR, alive as it is (KIP-501).

The read is held before it takes any lock, so that the leader goes on: it writes, finds that the
follower has not been caught up for `replica.lag.time.max.ms`, and shrinks the ISR. What is held is
the fetch of before the write; when it goes on the follower gets it all and returns.
"""

import kchaos as k
from tests.support.looking import messages, of_partition, values

PROPERTIES = {
    "replica.lag.time.max.ms": "3000",
    # The follower shall not hang up on what is held.
    "replica.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
}
RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    k.Inject(name="slow", fault=k.SlowFetchReads(broker=0, topic="t", partition=0)),
    k.AwaitHeld(name="slow"),
    k.Produce(operation="alone", topic="t", partition=0, records=2, acks=1),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.TakeSnapshot(label="held"),
    k.Heal(name="slow"),
    k.AwaitInSync(),
)


def seen(run, release):
    assert [values(run, "held", broker) for broker in (0, 1)] == [
        ["both-0", "alone-0", "alone-1"],
        ["both-0"],
    ]
    kept = [hit for hit in run.read_lines("hits.jsonl") if hit["hold"]]
    assert {(hit["point"], hit["reader"], hit["fate"]) for hit in kept} == {
        ("fetch-read", "1", "held"),
        ("fetch-read", "1", "released"),
    }
    # The request had passed the link before it was held.
    held_at = kept[0]["time"]
    assert any(
        line["wall_time_s"] < held_at and of_partition(line).get("fetch_offset") == 1
        for line in messages(run, "Fetch", 1, 0, direction="request", fate="passed")
    )
