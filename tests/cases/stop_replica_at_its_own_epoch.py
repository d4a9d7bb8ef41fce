"""A StopReplica that names the partition's own leader epoch, which a controlled shutdown sends.

From 2.6.0 to 3.4.0 a broker takes it for an old one and answers FENCED_LEADER_EPOCH (KIP-570), so
that the follower goes on fetching until its process ends or it hears of the next epoch, which is
held here. 2.5.1 knows no epoch there, and 3.4.1 obeys at the own epoch too (KAFKA-13972).
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import messages, number

PROPERTIES = {"controlled.shutdown.enable": "true"}
RELEASES = {"2.5.1": True, "2.6.0": True, "2.8.2": True, "3.4.0": True, "3.4.1": True}
_FENCED = 74


def steps(release):
    after = (k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),)
    return (
        *both_have_one(0, 1),
        held("leader", "LeaderAndIsr", source=2, target=0),
        held("bye", "ControlledShutdown", source=1, target=2, direction="response"),
        k.Inject(name="stop", fault=k.StopBroker(broker=1, await_end=False)),
        k.AwaitHeld(name="leader"),
        k.AwaitHeld(name="bye"),
        k.AwaitMessage(api="StopReplica", source=2, target=1, direction="response"),
        k.Produce(operation="after", topic="t", partition=0, records=1, acks=1, broker=0),
        *(after if _refuses(release) else ()),
        k.Heal(name="leader"),
        k.Heal(name="bye"),
        k.Heal(name="stop"),
    )


def _refuses(release):
    return (2, 6, 0) <= number(release) <= (3, 4, 0)


def seen(run, release):
    answers = list(messages(run, "StopReplica", 2, 1, direction="response"))
    errors = [
        partition["error_code"] for line in answers for partition in line["detail"]["partitions"]
    ]
    assert errors[0] == (_FENCED if _refuses(release) else 0), errors
