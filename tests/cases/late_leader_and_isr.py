"""A LeaderAndIsr that comes late names a leader that is dead by then, and the broker follows it.

Broker 1 leads when 0 is elected, and is not told: the request is held. It takes one more record
with acks=1. Then 0 dies, and 1 is to lead again. Released, the first request comes before the
UpdateMetadata that would tell 1 of the death, so that 0 is alive in its metadata cache and 1
becomes its follower (kafka.server.ReplicaManager.makeFollowers, which asks the broker's own cache).
On 0.10.2 that truncates to the high watermark at once, and the record is gone.
"""

import kchaos as k
from tests.support.case_steps import leads_without_hearing_of_the_next
from tests.support.looking import log_lines, number, values

LOGS = "the new leader 0 is unavailable"
RELEASES = {"0.10.2.2": True, "3.9.1": True}
STEPS = (
    *leads_without_hearing_of_the_next(),
    k.Inject(name="leader", fault=k.KillBroker(broker=0)),
    k.AwaitDecision(topic="t", partition=0, leader=1, isr=(1,)),
    k.Heal(name="late"),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
)


def seen(run, release):
    kept = values(run, "before-healing", 1)
    wanted = ["both-0"] if number(release) < (0, 11) else ["both-0", "unheard-0"]
    assert kept == wanted, kept
    assert not log_lines(run, 1, LOGS)
