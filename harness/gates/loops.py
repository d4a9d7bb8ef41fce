"""A follower that asks for the same offset again and again, and gets nothing that it can use."""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.rules.fetch_loops import ANSWERS
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.harness.play.play import Play


def fetch_loop(play: Play, follower: int, leader: int, partition: TopicPartition) -> str:
    """Return how often a follower got OFFSET_OUT_OF_RANGE, or "" unless it goes on.

    A follower that is out of range asks where the leader's log begins and ends, and fetches from
    there; once or twice is usual. Without links nobody can tell.
    """
    links = play.cluster.links
    if links is None:
        return ""
    answers = [
        record
        for record in links.log()
        if (record.api_key, record.direction) == (ApiKey.FETCH, "response")
        and (record.source, record.target) == (follower, leader)
        and _error(record, partition) is not None
    ][-ANSWERS:]
    if len(answers) < ANSWERS:
        return ""
    if any(_error(record, partition) != ErrorCode.OFFSET_OUT_OF_RANGE for record in answers):
        return ""
    seconds = answers[-1].monotonic_s - answers[0].monotonic_s
    return (
        f"its last {ANSWERS} fetches from broker {leader}, {ANSWERS / seconds:.0f} a second, were "
        "all answered with OFFSET_OUT_OF_RANGE"
    )


def _error(record: LinkRecord, partition: TopicPartition) -> int | None:
    said = record.partition(*partition)
    return None if said is None else int(said["error_code"])
