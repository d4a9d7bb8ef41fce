"""Name, title and brokers' settings of drawn schedules, however they are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from kchaos.checkers.fingerprint import DRAWN
from kchaos.clusters.settings import segment_size_setting

ENTRY = DRAWN
SHRUNK = "shrunk"
"""The entry of a schedule that was drawn and then shrunk: now each of its steps counts."""
NO_GATES = "no-gates"
# A broker that is cut off or paused keeps its session until a step ends it: with less time it
# would end by itself while a gate waits, and the schedule would be about another cluster.
_SESSION = {"zookeeper.session.timeout.ms": "18000"}
_WITH_KRAFT = {
    # A restart waits for it, so that it is as long as KRaft clusters have it by themselves.
    "broker.session.timeout.ms": "9000",
    # So long a leader waits for a controller that stands still, before it asks the next one.
    "controller.socket.timeout.ms": "3000",
}
CONTROLLED_SHUTDOWN: Mapping[str, str] = {
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.retry.backoff.ms": "200",
}
"""With these a broker that stops asks its controller first, three times at most."""
SEVERAL_FETCHERS: Mapping[str, str] = {
    "num.replica.fetchers": "2",
    "replica.fetch.response.max.bytes": "200",
}
"""With these a follower has two threads for a leader, and an answer little room."""
_SEGMENT_BYTES = "300"
SMALL_LOGS: Mapping[str, str] = {
    "log.segment.bytes": _SEGMENT_BYTES,
    "log.retention.bytes": "400",
    "log.retention.check.interval.ms": "500",
}
"""With these some batches fill a segment, and a log keeps two or three of them."""
_UNCLEAN = 0.25
_TWO_IN_SYNC = 0.35


def small_segments(release: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """Return a topic's settings for segments as small as those of `SMALL_LOGS`, by its release.

    Segments of brokers have 1 MiB at least from 4.0 on (KIP-1030).
    """
    if release < (4, 0):
        return ()
    return ((segment_size_setting(release), _SEGMENT_BYTES),)


def message_formats(release: tuple[int, ...]) -> tuple[str, ...]:
    """Return the message formats between which a schedule chooses on a release, by its number.

    There are none where no older one has other leader epochs, where an older one stops replication
    (KAFKA-7601, KIP-595: 2.7), and where brokers ignore it (KIP-724).
    """
    return ("0.10.2", "0.11.0") if (0, 11) <= release < (2, 7) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSettings:
    """A seed's choice of the brokers' settings; `properties` adds those that it does not decide.

    Attributes:
        is_unclean: Whether unclean elections are allowed.
        min_insync_replicas: `min.insync.replicas`.
    """

    is_unclean: bool
    min_insync_replicas: int

    def properties(self, *, is_kraft: bool = False) -> Mapping[str, str]:
        """Return the brokers' properties beside all scenarios' common ones."""
        return {
            **(_WITH_KRAFT if is_kraft else _SESSION),
            "unclean.leader.election.enable": str(self.is_unclean).lower(),
            "min.insync.replicas": str(self.min_insync_replicas),
        }


def draw_settings(random: Random) -> DrawnSettings:
    """Draw whether elections may be unclean, and how many replicas must be in sync."""
    is_unclean = random.random() < _UNCLEAN
    return DrawnSettings(
        is_unclean=is_unclean, min_insync_replicas=2 if random.random() < _TWO_IN_SYNC else 1
    )


def case_of(mix: str, gated: bool, mode: str | None = None) -> str:
    """Return the case of a scenario of a mix, with the mode if it was asked for."""
    return "-".join([mix, *([mode] if mode else []), *([] if gated else [NO_GATES])])


def mix_of_case(case: str) -> str:
    """Return the mix of such a case; its name may contain a hyphen."""
    mix, *_ = case.removesuffix(f"-{NO_GATES}").split("-with-")
    for mode in ("kraft", "zookeeper"):
        mix = mix.removesuffix(f"-{mode}")
    return mix


def title_of(what: str, mix: str, gated: bool, seed: int) -> str:
    """Return the title of a scenario of a mix; `what` is drawn."""
    return f"{what} ({mix}{'' if gated else ', without gates'}), seed {seed}"
