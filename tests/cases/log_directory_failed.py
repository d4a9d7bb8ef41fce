"""One of a broker's two log directories fails, and the broker goes on with the other (KIP-112).

The broker tells the controller that something failed. A LeaderAndIsr for all of its replicas finds
out which: to that of the failed directory it answers with KAFKA_STORAGE_ERROR. The replica is not
elected then, and leaves the ISR; what lies in the other directory is led as before.
"""

import kchaos as k
from tests.support.case_steps import ON_TWO_FOLDERS, T, U
from tests.support.looking import answer, messages

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
LOG_DIRECTORIES = 2
_FAULT = k.FailLogDirectory(broker=0, **T)
STEPS = (
    *ON_TWO_FOLDERS,
    k.Inject(name="leader", fault=_FAULT),
    k.AwaitState(leader=1, isr=(1,), **T),
    k.AwaitState(leader=0, leader_epoch=0, isr=(0, 1), **U),
    k.Produce(operation="refused", records=1, acks=1, broker=0, accept_error=True, **T),
    k.Produce(operation="of-the-next", records=2, acks=-1, **T),
    k.Produce(operation="of-u-still", records=1, acks=-1, **U),
    k.Heal(name="leader"),
    k.AwaitState(leader=1, isr=(0, 1), **T),
    k.AwaitState(leader=1, isr=(0, 1), **U),
    k.Inject(name="follower", fault=_FAULT),
    k.AwaitState(leader=1, isr=(1,), **T),
    k.Produce(operation="without", records=2, acks=-1, **T),
    k.Produce(operation="with", records=1, acks=-1, **U),
    k.Heal(name="follower"),
    k.AwaitState(leader=1, isr=(0, 1), **T),
    k.AwaitState(leader=1, isr=(0, 1), **U),
)


def seen(run, release):
    # An old produce request is told another error than KAFKA_STORAGE_ERROR.
    told = answer(run, "refused")["error"]
    assert told in ("KAFKA_STORAGE_ERROR", "NOT_LEADER_FOR_PARTITION"), told
    answers = messages(run, "LeaderAndIsr", 2, 0, direction="response")
    errors = [
        [(entry["topic"], entry["error_code"]) for entry in line["detail"]["partitions"]]
        for line in answers
    ]
    assert sum(("t", 56) in entries for entries in errors) >= 2, errors
    assert not any(("u", 56) in entries for entries in errors), errors
