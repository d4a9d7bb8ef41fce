"""A follower that asks for the same offset again and again, and gets nothing that it can use."""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.rules.fetch_loops import ANSWERS
from kchaos.harness.play.play import Play


def fetch_loop(play: Play, follower: int, leader: int, partition: TopicPartition) -> str:
    """Return how often a follower got OFFSET_OUT_OF_RANGE, or "" unless it goes on.

    A follower that is out of range asks where the leader's log begins and ends, and fetches from
    there; once or twice is usual. Without links nobody can tell.
    """
    links = play.cluster.links
    if links is None:
        return ""
    answers = links.fetches.failed(follower, leader, partition)[-ANSWERS:]
    if len(answers) < ANSWERS:
        return ""
    errors = {(answer.partition(*partition) or {}).get("error_code") for answer in answers}
    if errors != {ErrorCode.OFFSET_OUT_OF_RANGE}:
        return ""
    seconds = answers[-1].monotonic_s - answers[0].monotonic_s
    return (
        f"its last {ANSWERS} fetches from broker {leader}, {ANSWERS / seconds:.0f} a second, were "
        "all answered with OFFSET_OUT_OF_RANGE"
    )
