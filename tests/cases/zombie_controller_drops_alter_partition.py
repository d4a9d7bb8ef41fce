"""A controller that loses its session drops the AlterPartition requests that it has not answered.

Broker 2 is controller and leader, and cut off from ZooKeeper. Its own request to grow the ISR
blocks there; then its session ends, 1 leads and asks the old controller, whom it still takes for
the controller, to grow the ISR again. When the old one learns of its end, its queue is cleared
without an answer (kafka.controller.ControllerEventManager.clearAndPut), and the asker waits for
controller.socket.timeout.ms, 30 s by default, before it asks the new controller. A request that
comes only after that is refused with NOT_CONTROLLER instead (KafkaController.processAlterPartition,
!isActive). So it is held at the link, and let go before the old controller can learn anything.
"""

import kchaos
from tests.support.looking import messages

ASKING = kchaos.HoldRequests(name="asking", api="AlterPartition", source=1, target=2)
PROPERTIES = {"controller.socket.timeout.ms": "3000"}
RELEASES = {"3.9.1": True}
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((2, 1, 0),)),
    kchaos.Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(2, 1, 0), high_watermark=1),
    kchaos.Inject(name="link", fault=kchaos.CutLink(source=2, target=0)),
    kchaos.Inject(name="bounce", fault=kchaos.FastBounce(broker=0)),
    kchaos.AwaitState(topic="t", partition=0, leader=2, isr=(2, 1)),
    kchaos.Inject(name="zookeeper", fault=kchaos.CutZooKeeper(broker=2)),
    kchaos.Heal(name="link"),
    kchaos.Inject(name="asking", fault=ASKING),
    kchaos.Inject(name="session", fault=kchaos.ExpireSession(broker=2, await_return=False)),
    kchaos.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    kchaos.AwaitHeld(name="asking"),
    kchaos.Heal(name="asking"),
)


def seen(run, release):
    asked = [line["target"] for line in messages(run, "AlterPartition", 1, direction="request")]
    answers = [line["target"] for line in messages(run, "AlterPartition", 1, direction="response")]
    assert asked[0] == 2, asked
    assert answers, asked
    assert 2 not in answers, answers
