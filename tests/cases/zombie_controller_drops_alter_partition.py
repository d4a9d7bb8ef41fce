"""A controller that loses its session drops the AlterPartition requests that it has not answered.

Broker 2 is controller and leader, and cut off from ZooKeeper. Its own request to grow the ISR
blocks there; then its session ends, 1 leads and asks the old controller, whom it still takes for
the controller, to grow the ISR again. When the old one learns of its end, its queue is cleared
without an answer (kafka.controller.ControllerEventManager.clearAndPut), and the asker waits for
controller.socket.timeout.ms, 30 s by default, before it asks the new controller. A request that
comes only after that is refused with NOT_CONTROLLER instead (KafkaController.processAlterPartition,
!isActive). So it is held at the link, and let go before the old controller can learn anything.
"""

import kchaos as k
from tests.support.looking import messages

ASKING = k.HoldRequests(name="asking", api="AlterPartition", source=1, target=2)
PROPERTIES = {"controller.socket.timeout.ms": "3000"}
RELEASES = {"3.9.1": True}
STEPS = (
    k.CreateTopic(topic="t", assignment=((2, 1, 0),)),
    k.Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(2, 1, 0), high_watermark=1),
    k.Inject(name="link", fault=k.CutLink(source=2, target=0)),
    k.Inject(name="bounce", fault=k.FastBounce(broker=0)),
    k.AwaitState(topic="t", partition=0, leader=2, isr=(2, 1)),
    k.Inject(name="zookeeper", fault=k.CutZooKeeper(broker=2)),
    k.Heal(name="link"),
    k.Inject(name="asking", fault=ASKING),
    k.Inject(name="session", fault=k.ExpireSession(broker=2, await_return=False)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    k.AwaitHeld(name="asking"),
    k.Heal(name="asking"),
)


def seen(run, release):
    asked = [line["target"] for line in messages(run, "AlterPartition", 1, direction="request")]
    answers = [line["target"] for line in messages(run, "AlterPartition", 1, direction="response")]
    assert asked[0] == 2, asked
    assert answers, asked
    assert 2 not in answers, answers
