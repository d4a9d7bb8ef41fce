"""Before KIP-380's commit a controller whose session ends while it writes stands still."""

import kchaos as k
from kchaos.clusters.agent.points import CONTROLLER_WRITE
from kchaos.harness.catalogue.kip_380_bounced import topic_with_a_record
from kchaos.harness.catalogue.settings import quick_cluster

CONTROLLER, LEADER, OTHER = 0, 1, 2
_CASE = "session-ends"
_THROWN = r"Caught unexpected throwable"
_EXPIRED = r"SessionExpiredException: KeeperErrorCode = Session expired"
_HELD = {"hit": {"point": CONTROLLER_WRITE, "broker": CONTROLLER, "fate": "held"}}
_REGISTERED = r"Registered broker 0 at path"


def _steps(_case: str) -> tuple[k.Step, ...]:
    replicas = (LEADER, OTHER, CONTROLLER)
    return (
        *topic_with_a_record(replicas),
        k.AwaitReplicated(topic="t", partition=0, brokers=replicas, log_end_offset=1),
        k.Tell(text="broker 1 is shut down; the controller is about to write the next leader of t"),
        k.Inject(
            name="write", fault=k.HoldPoint(name="write", broker=CONTROLLER, point=CONTROLLER_WRITE)
        ),
        k.Inject(name="stop", fault=k.StopBroker(broker=LEADER, await_end=False)),
        k.AwaitHeld(name="write"),
        k.Tell(text="its session ends before it writes"),
        k.Inject(name="session", fault=k.ExpireSession(broker=CONTROLLER, await_return=False)),
        k.AwaitLog(broker=CONTROLLER, pattern=r"Session expired"),
        k.Heal(name="write"),
        # It was registered once before.
        k.AwaitLog(broker=CONTROLLER, pattern=f"{_THROWN}|{_REGISTERED}", count=2),
        k.Tell(text="another broker is the controller, and shuts broker 1 down"),
        k.Heal(name="stop"),
    )


KIP_380_CONTROLLER_LOST = k.Entry(
    name="KIP-380-controller-lost",
    title="A controller whose session ends while it writes stands still, and its broker stays away",
    story=(
        "2.1.0 and 2.1.1 write a partition's state together with a check of the controller epoch, "
        "in a transaction of ZooKeeper. If the session has ended the callback gets no results, and "
        "reads them all the same: a NullPointerException ends it, and nobody tells the "
        "controller's thread, which waits for ever. It would also have registered the broker "
        "again. So broker 0 is alive and belongs to no cluster: it hears of no leader epoch, and "
        "stays a follower of broker 1, which the next controller shut down. Before 2.1.0 a write "
        "was no transaction. From 2.2.0 on the callback looks whether there are results: the write "
        "fails, the broker resigns, registers again and follows the new leader. The controller's "
        "thread is held before it writes, and its session is ended from outside."
    ),
    source=(
        "kafka.zookeeper.ZooKeeperClient, 2.1.1 and 2.2.0 (mended by the commit of KAFKA-7235, "
        "KIP-380); found by random runs, measured on real brokers"
    ),
    cases={_CASE: "its session ends while it is about to write"},
    cluster=quick_cluster(
        LEADER,
        OTHER,
        controller=CONTROLLER,
        properties={
            "controlled.shutdown.enable": "true",
            "controlled.shutdown.retry.backoff.ms": "200",
            # Broker 1 asks the next controller when the first one has not answered.
            "request.timeout.ms": "3000",
        },
    ),
    steps=_steps,
    expectations={
        (_CASE, "2.1.1"): k.Expectation(
            safe=False,
            findings=(("replication-stopped", (OTHER,), -1, -1, "t"),),
            witness=({"log": {"broker": CONTROLLER, "pattern": _THROWN}},),
        ),
        (_CASE, "2.2.2"): k.Expectation(
            safe=True, witness=(_HELD, {"log": {"broker": CONTROLLER, "pattern": _EXPIRED}})
        ),
    },
)
