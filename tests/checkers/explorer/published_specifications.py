"""The published TLA+ specifications of Kafka's replication, as systems of the explorer.

Source: hachikuji/kafka-specification at d68782b, modules KafkaReplication,
KafkaTruncateToHighWatermark, Kip101 and Kip279. TLC's counts for them are known, so that the
explorer's can be compared.

Components: ("log", r), a tuple of records (id, epoch); ("state", r), what replica r knows;
"quorum", what ZooKeeper holds; ("request", e), the LeaderAndIsr request with leader epoch e or
None; "record_id" and "leader_epoch", the next free ones.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations, product
from typing import Any, NamedTuple

from checkers.explorer import Move, Permutation, Read, System

Changes = Mapping[Any, Any] | None
Record = tuple[int, int]
Log = tuple[Record, ...]


class Quorum(NamedTuple):
    """The partition's state in ZooKeeper, and what a LeaderAndIsr request says."""

    leader_epoch: int
    leader: int | None
    isr: frozenset[int]


class Replica(NamedTuple):
    """What one replica knows."""

    high_watermark: int
    leader_epoch: int
    leader: int | None
    isr: frozenset[int]


class Bounds(NamedTuple):
    """The specification's constants."""

    replicas: int
    log_size: int
    max_records: int
    max_leader_epoch: int


# Where a follower cuts its log: what it reads, leader and follower, to the offset or None.
TruncationOffset = Callable[[Read, int, int], int | None]


def truncate_to_high_watermark(bounds: Bounds, is_symmetric: bool = False) -> System:
    """KafkaTruncateToHighWatermark: before KIP-101."""

    def to_high_watermark(read: Read, leader: int, follower: int) -> int:
        return int(read(("state", follower)).high_watermark)

    return _system(bounds, {"high watermark": to_high_watermark}, is_symmetric)


def kip_101(bounds: Bounds, is_symmetric: bool = False) -> System:
    """Kip101: the leader is asked where the follower's last epoch ends."""

    def to_end_of_epoch(read: Read, leader: int, follower: int) -> int | None:
        own: Log = read(("log", follower))
        if not own:
            return None
        epoch = own[-1][1]
        of_leader: Log = read(("log", leader))
        if of_leader and of_leader[-1][1] == epoch:
            return len(of_leader)
        larger = [offset for offset, record in enumerate(of_leader) if record[1] > epoch]
        return min(larger) if larger else int(read(("state", follower)).high_watermark)

    return _system(bounds, {"empty": _empty, "end of epoch": to_end_of_epoch}, is_symmetric)


def kip_279(bounds: Bounds, is_symmetric: bool = False) -> System:
    """Kip279: the follower cuts behind the last record that both have."""

    def to_last_match(read: Read, leader: int, follower: int) -> int:
        pairs = zip(read(("log", follower)), read(("log", leader)), strict=False)
        return max(
            (offset + 1 for offset, (own, other) in enumerate(pairs) if own == other), default=0
        )

    return _system(bounds, {"empty": _empty, "last match": to_last_match}, is_symmetric)


def _empty(read: Read, leader: int, follower: int) -> int | None:
    return 0 if not read(("log", follower)) else None


def _system(
    bounds: Bounds, truncations: Mapping[str, TruncationOffset], is_symmetric: bool
) -> System:
    replicas = range(bounds.replicas)
    initial: dict[Any, Any] = {
        "quorum": Quorum(-1, None, frozenset(replicas)),
        "leader_epoch": 0,
        "record_id": 0,
    }
    initial |= {("state", replica): Replica(0, -1, None, frozenset()) for replica in replicas}
    initial |= {("log", replica): () for replica in replicas}
    initial |= {("request", epoch): None for epoch in range(bounds.max_leader_epoch + 1)}
    moves = [
        *_controller_moves(bounds),
        *_leader_moves(bounds),
        *_follower_moves(bounds, truncations),
    ]
    invariants = {"StrongIsr": lambda read: _strong_isr(read, bounds.replicas)}
    symmetry = [_exchange(order) for order in permutations(replicas) if order != tuple(replicas)]
    return System(initial, moves, invariants, symmetry if is_symmetric else ())


def _exchange(order: tuple[int, ...]) -> Permutation:
    def component(old: Any) -> Any:
        return (old[0], order[old[1]]) if old[0] in ("state", "log") else old

    def value(_: Any, old: Any) -> Any:
        if not isinstance(old, Quorum | Replica):
            return old
        leader = None if old.leader is None else order[old.leader]
        return old._replace(leader=leader, isr=frozenset(order[each] for each in old.isr))

    return Permutation(component, value)


def _controller_moves(bounds: Bounds) -> Iterator[Move]:
    def update(read: Read, leader: int | None, isr: frozenset[int]) -> Changes:
        epoch = read("leader_epoch")
        if epoch > bounds.max_leader_epoch:
            return None
        new = Quorum(epoch, leader, isr)
        return {"quorum": new, "leader_epoch": epoch + 1, ("request", epoch): new}

    def shrink(replica: int, read: Read) -> Changes:
        quorum = read("quorum")
        if quorum.leader == replica:
            return update(read, None, quorum.isr - {replica} or quorum.isr)
        return (
            update(read, quorum.leader, quorum.isr - {replica}) if replica in quorum.isr else None
        )

    def elect(replica: int, read: Read) -> Changes:
        quorum = read("quorum")
        is_new = replica in quorum.isr and quorum.leader != replica
        return update(read, replica, quorum.isr) if is_new else None

    for replica in range(bounds.replicas):
        yield _move(f"ControllerShrinkIsr {replica}", shrink, replica)
        yield _move(f"ControllerElectLeader {replica}", elect, replica)


def _leader_moves(bounds: Bounds) -> Iterator[Move]:
    def become_leader(epoch: int, read: Read) -> Changes:
        request = read(("request", epoch))
        if request is None or request.leader is None:
            return None
        state = read(("state", request.leader))
        if request.leader_epoch <= state.leader_epoch:
            return None
        return {("state", request.leader): Replica(state.high_watermark, *request)}

    def write(leader: int, read: Read) -> Changes:
        state = read(("state", leader))
        if state.leader != leader:
            return None
        record_id, log = read("record_id"), read(("log", leader))
        if record_id >= bounds.max_records or len(log) >= bounds.log_size:
            return None
        return {
            ("log", leader): (*log, (record_id, state.leader_epoch)),
            "record_id": record_id + 1,
        }

    def increase_high_watermark(leader: int, read: Read) -> Changes:
        state = read(("state", leader))
        offset = state.high_watermark
        if state.leader != leader or offset >= bounds.log_size:
            return None
        for follower in sorted(state.isr):
            if read(("state", follower)).leader != leader or offset >= len(read(("log", follower))):
                return None
        return {("state", leader): state._replace(high_watermark=offset + 1)}

    for epoch in range(bounds.max_leader_epoch + 1):
        yield _move(f"BecomeLeader {epoch}", become_leader, epoch)
    for leader in range(bounds.replicas):
        yield _move(f"LeaderWrite {leader}", write, leader)
        yield _move(f"LeaderIncHighWatermark {leader}", increase_high_watermark, leader)
    yield from _isr_moves(bounds)


def _isr_moves(bounds: Bounds) -> Iterator[Move]:
    def is_true_leader(read: Read, leader: int) -> bool:
        state = read(("state", leader))
        if state.leader != leader:
            return False
        quorum = read("quorum")
        return bool(quorum.leader == leader and quorum.leader_epoch == state.leader_epoch)

    def update(read: Read, leader: int, isr: frozenset[int]) -> Changes:
        return {
            "quorum": read("quorum")._replace(isr=isr),
            ("state", leader): read(("state", leader))._replace(isr=isr),
        }

    def is_caught_up(read: Read, leader: int, follower: int, end_offset: int) -> bool:
        if read(("state", follower)).leader != leader:
            return False
        return end_offset == 0 or (
            end_offset <= len(read(("log", leader))) and end_offset <= len(read(("log", follower)))
        )

    def shrink(leader: int, replica: int, read: Read) -> Changes:
        isr = read(("state", leader)).isr
        if replica not in isr or not is_true_leader(read, leader):
            return None
        if is_caught_up(read, leader, replica, len(read(("log", leader)))):
            return None
        return update(read, leader, isr - {replica})

    def expand(leader: int, replica: int, read: Read) -> Changes:
        state = read(("state", leader))
        if replica in state.isr or not is_true_leader(read, leader):
            return None
        if not is_caught_up(read, leader, replica, state.high_watermark):
            return None
        return update(read, leader, state.isr | {replica})

    for leader, replica in product(range(bounds.replicas), repeat=2):
        if leader != replica:
            yield _move(f"LeaderShrinkIsr {leader} {replica}", shrink, leader, replica)
        yield _move(f"LeaderExpandIsr {leader} {replica}", expand, leader, replica)


def _follower_moves(bounds: Bounds, truncations: Mapping[str, TruncationOffset]) -> Iterator[Move]:
    def become_follower(
        epoch: int, follower: int, truncation: TruncationOffset, read: Read
    ) -> Changes:
        request = read(("request", epoch))
        if request is None or request.leader in (None, follower):
            return None
        state = read(("state", follower))
        if request.leader_epoch <= state.leader_epoch:
            return None
        offset, log = truncation(read, request.leader, follower), read(("log", follower))
        if offset is None or offset > len(log):
            return None
        high_watermark = min(offset, state.high_watermark)
        return {
            ("log", follower): log[:offset],
            ("state", follower): Replica(high_watermark, *request),
        }

    def replicate(follower: int, leader: int, read: Read) -> Changes:
        if read(("state", leader)).leader != leader or read(("state", follower)).leader != leader:
            return None
        own, of_leader = read(("log", follower)), read(("log", leader))
        if len(own) >= len(of_leader):
            return None
        high_watermark = min(read(("state", leader)).high_watermark, len(own) + 1)
        state = read(("state", follower))._replace(high_watermark=high_watermark)
        return {("log", follower): (*own, of_leader[len(own)]), ("state", follower): state}

    epochs, replicas = range(bounds.max_leader_epoch + 1), range(bounds.replicas)
    for (name, truncation), epoch, follower in product(truncations.items(), epochs, replicas):
        label = f"BecomeFollower {epoch} {follower}, {name}"
        yield _move(label, become_follower, epoch, follower, truncation)
    for follower, leader in product(replicas, repeat=2):
        if leader != follower:
            yield _move(f"FollowerReplicate {follower} {leader}", replicate, follower, leader)


def _move(label: str, body: Callable[..., Changes], *arguments: Any) -> Move:
    return Move(label, lambda read: body(*arguments, read))


def _strong_isr(read: Read, replicas: int) -> str:
    for leader in range(replicas):
        state = read(("state", leader))
        if state.leader != leader or state.high_watermark == 0:
            continue
        log = read(("log", leader))
        for member in sorted(read("quorum").isr):
            other = read(("log", member))
            for offset in range(state.high_watermark):
                if log[offset : offset + 1] != other[offset : offset + 1] or offset >= len(log):
                    return f"{member} differs from leader {leader} at offset {offset}"
    return ""
