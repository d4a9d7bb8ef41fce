"""Runs on both sides of the border of a rule: followed by it, and not by what its neighbour does.

Each was played on real brokers by a case of `tests/cases` or by a catalogue entry, and stored as
the golden runs are: `python -m tests.golden.make --border NAME RUN`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

import tests.support.model as m
from kchaos.checkers.model import follow, generation_for
from kchaos.checkers.model.broker import leader as leading
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.releases.generation import Generation
from tests.golden.stored import BORDERS, expected_of, recorded

pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Border:
    """What stands in for the rules of the run's releases, and cannot explain it.

    That its own rules do is said of the run by `test_golden`.

    Attributes:
        without: Rules that its releases have.
        also: Rules that its releases lack.
    """

    without: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


_DIVERGING = Border(without=("diverging epoch in the Fetch response", "KAFKA-12996"))
_STATE_AFTER = "leader's state after the fetch"
RUNS: Mapping[str, Border] = {
    "stop-replica-2.6.0": Border(without=("KIP-570",)),
    "stop-replica-3.4.0": Border(also=("KAFKA-13972",)),
    "stop-replica-3.4.1": Border(without=("KAFKA-13972",)),
    "fetched-before-truncating-1.0.2": Border(without=("fetch answer before a truncation",)),
    "fetched-before-truncating-1.1.1": Border(also=("fetch answer before a truncation",)),
    # That case with one more record, and fetches of the leader held: its high watermark lags.
    "fetched-at-the-log-end-1.0.2": Border(also=("initial fetch offset",)),
    "moved-high-watermark-0.11.0.3": Border(also=(_STATE_AFTER,)),
    "moved-high-watermark-1.0.0": Border(without=(_STATE_AFTER,)),
    "moved-high-watermark-1.0.1": Border(without=(_STATE_AFTER,)),
    "moved-high-watermark-1.0.2": Border(also=(_STATE_AFTER,)),
    "moved-high-watermark-1.1.0": Border(without=(_STATE_AFTER,)),
    "moved-high-watermark-1.1.1": Border(also=(_STATE_AFTER,)),
    "effective-min-isr-3.6.2": Border(also=("KAFKA-15583",)),
    "effective-min-isr-3.7.2": Border(without=("KAFKA-15583",)),
    "maximal-isr-is-enough-2.7.2": Border(without=("maximal ISR after the append",)),
    "maximal-isr-is-enough-3.6.2": Border(without=("maximal ISR after the append",)),
    "maximal-isr-is-enough-3.7.2": Border(without=("KAFKA-15583",)),
    # Who moves the high watermark when: the ISR's shrinking, or the next fetch.
    "expansion-2.6.3": Border(also=("KIP-497",)),
    "expansion-2.7.2": Border(also=("KAFKA-13091",)),
    "expansion-3.0.2": Border(also=("KAFKA-13091",)),
    "expansion-3.1.2": Border(without=("KAFKA-13091",)),
    "diverging-2.7.1-at-2.6": _DIVERGING,
    "diverging-2.7.2-at-2.6": _DIVERGING,
    "diverging-2.8.0-at-2.6": _DIVERGING,
    "diverging-2.8.1-at-2.6": _DIVERGING,
    "epoch-zero-2.5.1": Border(without=("recovery without epoch 0",)),
    "epoch-zero-2.6.3": Border(without=("KAFKA-10432",), also=("recovery without epoch 0",)),
    "kafka-9491-2.4.0": Border(also=("KAFKA-9491",)),
    "kafka-9491-2.4.1": Border(without=("KAFKA-9491",)),
    "high-watermark-beyond-log-1.1.1": Border(without=("KAFKA-3978",)),
    # A topic was made again while broker 1 was away, which kept its old folder.
    "recreated-2.8.2": Border(also=("KAFKA-12426",)),
    "recreated-3.0.2": Border(without=("refused replica offline",)),
    # An old tool wrote the topic's znode without its id, and a controller gave it another one.
    "topic-id-forgotten-3.9.1": Border(without=("KIP-516", "KAFKA-12426")),
    "recreated-3.9.1": Border(also=("refused replica offline",)),
    "refused-while-told-3.6.2": Border(without=("KAFKA-9579",)),
    "records-deleted-1.1.1": Border(without=("KIP-107",)),
    "records-deleted-2.8.2": Border(without=("KAFKA-6975",)),
}


def followed(record: Record, border: Border) -> m.Prediction:
    """What the run is followed to, by the releases' own rules but for the border's."""
    generations: dict[int, Generation] = {}
    for item in record.seen:
        if isinstance(item.what, m.StartBroker):
            generations[item.what.broker] = generation_for(
                item.what.release,
                inter_broker_protocol=item.what.inter_broker_protocol,
                message_format=item.what.message_format,
                without=border.without,
                also=border.also,
            )
    return follow(record, generations=generations)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_at_a_border_is_explained_by_its_own_side_alone(name: str):
    other = followed(recorded(name, runs=BORDERS), RUNS[name])

    assert expected_of(name, runs=BORDERS)["conforms"] is True
    assert other.limit == ""
    assert other.emptied_by is not None


@pytest.mark.parametrize(
    ("release", "tells"), [("2.6.3", False), ("2.7.2", True), ("3.0.2", True), ("3.1.2", False)]
)
def test_only_from_2_7_to_3_0_it_tells_that_a_leader_asks_before_its_high_watermark_moves(
    release: str, monkeypatch: pytest.MonkeyPatch, *, tells: bool
):
    """Elsewhere the ISR's shrinking has moved the high watermark beyond the follower's fetch."""
    record = recorded(f"expansion-{release}", runs=BORDERS)
    counts = leading.update_view

    def moves_first(
        world: m.World,
        leader: int,
        partition: m.TopicPartition,
        follower: int,
        offset: int,
        asks: leading.Ask | None = None,
        *,
        replica_epoch: int | None = None,
    ) -> bool:
        changed = counts(world, leader, partition, follower, offset, replica_epoch=replica_epoch)
        if asks is not None and leading.may_ask_for(world, leader, partition, follower):
            asks(world, leader, partition, follower)
        return changed

    monkeypatch.setattr(leading, "update_view", moves_first)
    old = followed(record, Border())

    assert old.limit == ""
    assert (old.emptied_by is not None) is tells


def test_every_stored_run_at_a_border_is_looked_at():
    assert {folder.name for folder in BORDERS.iterdir()} == {*RUNS}
