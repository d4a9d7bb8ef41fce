"""KAFKA-14704: a follower takes the leader's high watermark from an answer that makes it truncate.

0 has three records that 1, which leads now, never had; 1's high watermark is 3. The answer to 0's
first fetch says that 0's log diverges at 1, and names that high watermark. From 2.8 to 3.4.0 the
follower first raises its own to 3, with records below it that are not the leader's, and then
truncates to 1, which lowers it; from 3.4.1 on it truncates first
(kafka.server.AbstractFetcherThread.processFetchRequest, 3.4.0). Only its fetcher's own words, at
level TRACE, tell.
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import log_lines

FETCHER = "kafka.server.ReplicaFetcherThread"
RELEASES = {"3.4.0": True}
RAISED = "updated replica high watermark to 3"
LOGS = f"{RAISED}|Truncating partition t-0 .*offset=1"
STEPS = (
    *both_have_one(0, 1),
    k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
    k.Produce(
        operation="0-only", topic="t", partition=0, records=3, acks=1, one_record_batches=True
    ),
    k.Inject(name="down", fault=k.KillBroker(broker=0)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    k.Produce(
        operation="1-only", topic="t", partition=0, records=2, acks=1, one_record_batches=True
    ),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=3),
    k.Heal(name="down"),
    k.SetLogLevel(broker=0, logger=FETCHER, level="TRACE"),
    k.Heal(name="link"),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=3),
)


def seen(run, release):
    lines = log_lines(run, 0, LOGS)
    assert (RAISED in lines[0]) is (release == "3.4.0"), lines
