"""Values drawn beside the kind of the next step, and candidates for it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import kchaos as k


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Values that are drawn beside the kind of the next step.

    Attributes:
        number: Of the step; makes names new.
        records: How many are written, if something is.
        acks: With which acks.
        one_record_batches: Whether in as many requests.
        assignment: Of the topic, if one is made.
        configuration: Of that topic.
        codec: With which the records are compressed.
        keys: With which their keys begin; "" for null keys.
        await_answer: Whether the next act waits for the answer to a write.
    """

    number: int
    records: int
    acks: int
    one_record_batches: bool
    assignment: tuple[tuple[int, ...], ...]
    configuration: tuple[tuple[str, str], ...] = ()
    codec: str = "none"
    keys: str = ""
    await_answer: bool = True


Candidates = Callable[[k.View, Draw], Iterator[k.Step]]
"""Yields steps of one kind, in an order that depends on nothing else; not all need be legal."""


def of_each_replica(kind: str, fault: Callable[..., k.Fault]) -> Candidates:
    """Return a function that yields a fault for each replica of each partition.

    Args:
        kind: What its name begins with, before the number of the draw.
        fault: Makes it of `broker`, `topic` and `partition`.
    """

    def candidates(view: k.View, draw: Draw) -> Iterator[k.Step]:
        for partition in view.partitions:
            for broker in partition.replicas:
                made = fault(broker=broker, topic=partition.topic, partition=partition.partition)
                yield k.Inject(name=f"{kind}-{draw.number}", fault=made)

    return candidates
