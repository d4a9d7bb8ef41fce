"""What a machine is made of and how far it goes: brokers, records, leader epochs, log size."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from checkers.acts import TopicPartition
from checkers.model.generation import Generation

PARTITION = TopicPartition("t", 0)
CONTROLLER_EPOCH = 1
RECORDS = ("records",)
"""The component that says how many records were written."""
PROMISED = ("promised",)
"""The component that says what was below some leader's high watermark: (offset, payload)."""


class Grain(StrEnum):
    """In how many steps a fetcher thread and its leader talk."""

    ROUNDS = "rounds"
    """Asking, answering and handling the answer are one step."""
    ANSWERS = "answers"
    """An answer is in flight, and meanwhile either broker may hear of another leader epoch."""
    REQUESTS = "requests"
    """A request is in flight too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One partition on brokers that run all the time, and what bounds it.

    Attributes:
        generations: Broker id to what it does; all hold the partition, the first one leads first.
        records: How many records are written.
        leader_epoch: The highest leader epoch; the first is 0.
        log_size: How many records a leader's log may have.
        grain: In how many steps brokers talk.
        skips_epochs: Whether a broker may hear of a leader epoch and never of an older one, as
            when the controller moves; else it hears of all in order.
        remembers_promises: Whether what was committed is part of the state, for
            `checkers.model.properties.kept`.
    """

    generations: Mapping[int, Generation]
    records: int
    leader_epoch: int
    log_size: int
    grain: Grain = Grain.ANSWERS
    skips_epochs: bool = False
    remembers_promises: bool = False
