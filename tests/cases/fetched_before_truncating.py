"""Up to 1.0 a follower that is to truncate takes an answer to a Fetch from before.

The answer to a Fetch of broker 0 is held, with a record that only leader 1 has. Then 0 leads for an
epoch, and 1 cuts that record off. Then 1 leads again, and gets another record at the same offset.
The fetcher thread of 0 lives on for another topic. It gets the partition back at the offset that
the Fetch asked from. Up to 1.0 it takes the answer all the same, and truncates nothing. So both are
in the ISR and differ. From 1.1 on it takes no answer until it has truncated
(kafka.server.AbstractFetcherThread.processFetchRequest).
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import held
from tests.support.looking import number, values

PROPERTIES = {
    # The follower shall not hang up on what is held.
    "replica.socket.timeout.ms": "60000",
    "request.timeout.ms": "60000",
    "replica.lag.time.max.ms": "120000",
}
RELEASES = {"0.11.0.3": False, "1.0.2": False, "1.1.1": True}
_T: dict[str, Any] = {"topic": "t", "partition": 0}
STEPS = (
    k.CreateTopic(topic="t", assignment=((1, 0),)),
    k.CreateTopic(topic="u", assignment=((1, 0),)),
    k.Produce(operation="both", records=1, acks=-1, **_T),
    k.Produce(operation="beside", topic="u", partition=0, records=1, acks=-1),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=1, **_T),
    k.ReorderReplicas(replicas=(0, 1), **_T),
    k.AwaitState(leader=1, isr=(0, 1), **_T),
    held("ask", "Fetch", source=0, target=1),
    k.AwaitHeld(name="ask"),
    k.Produce(operation="cut-off", records=1, acks=1, **_T),
    held("answer", "Fetch", source=0, target=1, direction="response"),
    k.Heal(name="ask"),
    k.AwaitHeld(name="answer"),
    k.Inject(name="to-0", fault=k.PreferredElection(**_T)),
    k.AwaitState(leader=0, isr=(0, 1), **_T),
    k.AwaitReplicated(brokers=(0, 1), log_end_offset=1, **_T),
    k.ReorderReplicas(replicas=(1, 0), **_T),
    k.AwaitState(leader=0, isr=(0, 1), **_T),
    k.Inject(name="to-1", fault=k.PreferredElection(**_T)),
    k.AwaitState(leader=1, isr=(0, 1), **_T),
    k.Produce(operation="instead", records=1, acks=1, **_T),
    k.Heal(name="answer"),
    k.AwaitReplicated(brokers=(0, 1), log_end_offset=2, **_T),
)


def seen(run, release):
    second = [values(run, "final", broker)[1] for broker in (0, 1)]
    wanted = "cut-off-0" if number(release) < (1, 1) else "instead-0"
    assert second == [wanted, "instead-0"], second
