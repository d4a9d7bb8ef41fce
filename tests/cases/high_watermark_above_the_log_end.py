"""A new leader whose high watermark lies above its log end starts it anew, and says so differently.

0 held three records and a high watermark of 3. 1 lost two of them with its disk's tail and was
elected all the same, which unclean.leader.election.enable allows; 0 follows, truncates to 1, is
taken into the ISR and has not had an answer since: its high watermark is still 3 when it leads
again. Up to 0.11 it becomes -1 (unknown), from 1.0 on the log start offset (kafka.cluster.Replica,
0.11.0.3 and 1.0.2), until the other follower has fetched; from 2.4 on the truncation lowered it to
1 before.
"""

import kchaos as k
from tests.support.case_steps import LED_BY_THE_SHORTER, THREE_RECORDS, held
from tests.support.looking import number, observations

PROPERTIES = {"unclean.leader.election.enable": "true"}
RELEASES = {"0.11.0.3": True, "1.1.1": True}


def restarted_at(release):
    """The high watermark of the new leader before its follower has fetched."""
    if number(release) < (1, 0):
        return -1
    return 0 if number(release) < (2, 4) else 1


def steps(release):
    return (
        k.CreateTopic(topic="t", assignment=((0, 1),)),
        *THREE_RECORDS,
        *LED_BY_THE_SHORTER,
        held("answers", "Fetch", source=0, target=1, direction="response"),
        held("fetches", "Fetch", source=1, target=0),
        k.Heal(name="0-down"),
        k.Heal(name="link"),
        k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=1),
        k.AwaitState(topic="t", partition=0, leader=1, isr=(0, 1)),
        k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
        k.AwaitHeld(name="fetches"),
        k.AwaitHighWatermarkKept(
            topic="t", partition=0, brokers=(0,), high_watermark=restarted_at(release)
        ),
    )


def seen(run, release):
    kept = [line["value"] for line in observations(run, "high-watermark-kept")]
    assert kept == [restarted_at(release)]
