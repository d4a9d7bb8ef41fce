"""A broker whose answers do not reach the controller gets one request, and no more.

Its own requests, and the controller's to it, pass. The controller has one request in flight for
each broker: after the first that is not answered (UpdateMetadata, at the broker's return) it asks
the same again and again, and no LeaderAndIsr goes out (kafka.controller.RequestSendThread.doWork).
"""

from kchaos import AwaitHighWatermark, CreateTopic, CutLink, FastBounce, Inject, Produce
from tests.support.looking import messages

RELEASES = {"3.9.1": True}
STEPS = (
    CreateTopic(topic="t", assignment=((1,),)),
    Produce(operation="first", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=1),
    Inject(name="answers", fault=CutLink(source=1, target=2, one_way=True)),
    Inject(name="bounce", fault=FastBounce(broker=1)),
)


def seen(run, release):
    healed = next(
        line["time"]
        for line in run.read_lines("observations.jsonl")
        if line["kind"] == "act" and line["act"] == "HealLink"
    )
    cut = next(
        line["time"]
        for line in run.read_lines("observations.jsonl")
        if line["kind"] == "act" and line["act"] == "CutLink"
    )
    told = [
        line
        for line in messages(run, "LeaderAndIsr", 2, 1, direction="request")
        if cut < line["wall_time_s"] < healed and line["fate"] == "passed"
    ]
    assert told == [], told
