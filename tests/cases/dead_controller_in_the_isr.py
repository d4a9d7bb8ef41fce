"""A new controller leaves its dead predecessor in the ISR, up to 2.2.

The controller hosts a follower and dies. The next one elects leaders for what has none, and changes
no ISR of which the dead broker is only a member; from 2.3 on it takes offline replicas out when it
starts (KAFKA-3143, kafka.controller.ReplicaStateMachine.startup). A dead replica in the ISR holds
the high watermark back until the broker returns, and no later decision of a controller comes.
"""

import kchaos as k
from tests.support.looking import number, observations

RELEASES = {"2.2.2": True}


def steps(release):
    isr = (0, 1, 2) if number(release) < (2, 3) else (0, 1)
    return (
        k.CreateTopic(topic="t", assignment=((0, 1, 2),)),
        k.Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1, 2), high_watermark=1),
        k.Inject(name="controller", fault=k.KillBroker(broker=2)),
        k.AwaitMessage(api="LeaderAndIsr", target=0, says=(("controller_epoch", 2),)),
        k.AwaitDecision(topic="t", partition=0, leader=0, isr=isr),
    )


def seen(run, release):
    # The last state of all may be that of the topic by which settling shows the controller works.
    isr = [o for o in observations(run, "state") if o["topic"] == "t"][-1]["state"]["isr"]
    assert sorted(isr) == ([0, 1, 2] if number(release) < (2, 3) else [0, 1])
