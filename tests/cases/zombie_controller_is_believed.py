"""A controller without a session is obeyed by every broker that has not heard of the next one.

Broker 1 leads when 0 is elected, and its LeaderAndIsr is held at the link. The controller loses its
session, and so there is another one, whose first request to 1 is held as well. Now the old request
is released: 1 knows of no later controller epoch, follows 0 and truncates
(kafka.server.ReplicaManager.becomeLeaderOrFollower compares with the epoch it has heard of). The
old controller's requests do not end with its time in office: its senders live until it learns.
"""

import kchaos as k
from tests.support.case_steps import held, leads_without_hearing_of_the_next
from tests.support.looking import messages, of_partition, values

RELEASES = {"1.1.1": True}
# A request that is held longer than this is sent once more, and answered as one that came late.
PROPERTIES = {"request.timeout.ms": "12000"}
STEPS = (
    *leads_without_hearing_of_the_next(),
    held("new", "UpdateMetadata", target=1),
    k.Inject(name="zookeeper", fault=k.CutZooKeeper(broker=2)),
    k.Inject(name="session", fault=k.ExpireSession(broker=2, await_return=False)),
    k.AwaitHeld(name="new"),
    k.Heal(name="late"),
    k.AwaitFollowing(topic="t", partition=0, follower=1, leader=0),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=1),
    k.TakeSnapshot(label="believed"),
)


def seen(run, release):
    assert values(run, "believed", 1) == ["both-0"]
    late = next(messages(run, "LeaderAndIsr", 2, 1, fate="released"))
    exchange = {name: late[name] for name in ("connection", "correlation_id")}
    told = next(messages(run, "LeaderAndIsr", 2, 1, direction="response", **exchange))
    assert late["detail"]["controller_epoch"] == 1
    assert (told["detail"]["error_code"], of_partition(told)["error_code"]) == (0, 0)
