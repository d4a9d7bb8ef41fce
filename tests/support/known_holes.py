"""Moves that fall into a known hole of a generation, and generations to play them with."""

from collections.abc import Collection

from kchaos.checkers.model import generation_for
from kchaos.studies.explore.move_lists import Setup
from kchaos.studies.explore.moves import ChaosMove

KIP_279 = ("KIP-279", "OffsetForLeaderEpoch v1")
KIP_320 = ("KIP-320", "OffsetForLeaderEpoch v2", "Fetch v10", "KAFKA-9338")
EPOCH_CACHES = ("KAFKA-10706",)


def alike(
    release: str,
    *,
    brokers: int = 3,
    message_format: str | None = None,
    also: Collection[str] = (),
    checks_agreement: bool = True,
) -> Setup:
    generation = generation_for(release, message_format=message_format, also=also)
    return Setup(
        generations=dict.fromkeys(range(brokers), generation), checks_agreement=checks_agreement
    )


def flapping(release: str, *, also: Collection[str] = (), without: Collection[str] = ()) -> Setup:
    """Brokers 0 and 1 write magic 1, brokers 2 and 3 magic 2."""
    formats = {0: "0.10.2", 1: "0.10.2", 2: "0.11.0", 3: "0.11.0"}
    return Setup(
        generations={
            broker: generation_for(release, message_format=each, also=also, without=without)
            for broker, each in formats.items()
        }
    )


def moves(*texts: str) -> tuple[ChaosMove, ...]:
    """Moves written as "kind broker other"."""
    return tuple(
        ChaosMove(kind, *(int(number) for number in numbers))
        for kind, *numbers in (text.split() for text in texts)
    )


KAFKA_1211 = moves(
    "cut 1 2", "hold-next-answers 2", "write-all 0", "expire 0", "expire 1"
)  # fmt: skip
KAFKA_6361 = moves(
    "expire 0", "register 0", "write-all 1", "cut 0 1", "write-pair 1", "prefer 0", "write-one 0",
    "expire 0", "write-one 1",
)  # fmt: skip
KAFKA_7128 = moves(
    "expire 0", "register 0", "cut 1 2", "hold-next-answers 0", "write-all 1", "shrink 2",
    "cut 0 1", "hold-answers 2", "prefer 0", "expire 1", "expire 0",
)  # fmt: skip
KAFKA_7164 = moves(
    "expire 1", "cut 0 2", "write-one 0", "cut 0 1", "expire 0", "heal 0 2", "write-one 2",
    "register 0", "prefer 0",
)  # fmt: skip
KAFKA_7415 = moves(
    "cut 2 1", "hold-answers 1", "write-one 0", "expire 0", "expire 1", "write-one 2",
    "write-pair 1",
)  # fmt: skip
KAFKA_7395 = moves("expire 1", "expire 0", "write-one 0", "register 0", "write-pair 2", "prefer 1")
KAFKA_7897 = moves("expire 0", "write-one 1", "write-all 0", "expire 1")
KAFKA_10706 = moves(
    "write-all 0", "expire 0", "register 0", "cut 0 2", "cut 0 1", "write-pair 1", "expire 1",
    "expire 0",
)  # fmt: skip
KAFKA_7601 = moves(
    "expire 0", "expire 1", "register 0", "register 1", "write-all 2", "prefer 0", "cut 0 1",
    "write-pair 0", "terminate 3", "expire 0", "write-pair 1", "expire 1",
)  # fmt: skip
