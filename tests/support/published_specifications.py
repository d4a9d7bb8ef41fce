"""The published TLA+ specifications of Kafka's replication, as systems of the explorer.

Source: hachikuji/kafka-specification at d68782b, modules KafkaReplication,
KafkaTruncateToHighWatermark, Kip101 and Kip279. TLC's counts for them are known, so that the
explorer's can be compared.

Components: ("log", r), a tuple of records (id, epoch); ("view", r), ("isr", r) and
("high_watermark", r), what replica r knows; "quorum", what ZooKeeper holds; ("request", e), the
LeaderAndIsr request with leader epoch e or None; "record_id" and "leader_epoch", the next ones.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import permutations, product
from typing import Any, NamedTuple

from kchaos.studies.explorer import Move, Permutation, Read, System

Changes = Mapping[Any, Any] | None
Record = tuple[int, int]
Log = tuple[Record, ...]


class Quorum(NamedTuple):
    """The partition's state in ZooKeeper, and what a LeaderAndIsr request says."""

    leader_epoch: int
    leader: int | None
    isr: frozenset[int]


class View(NamedTuple):
    """Whom a replica takes for the leader, and since which leader epoch."""

    leader_epoch: int
    leader: int | None


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
        return int(read(("high_watermark", follower)))

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
        return min(larger) if larger else int(read(("high_watermark", follower)))

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
    for replica in replicas:
        initial |= {
            ("view", replica): View(-1, None),
            ("isr", replica): frozenset(),
            ("high_watermark", replica): 0,
            ("log", replica): (),
        }
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
        is_of_replica = old[0] in ("view", "isr", "high_watermark", "log")
        return (old[0], order[old[1]]) if is_of_replica else old

    def value(_: Any, old: Any) -> Any:
        if isinstance(old, frozenset):
            return frozenset(order[each] for each in old)
        if isinstance(old, View | Quorum) and old.leader is not None:
            old = old._replace(leader=order[old.leader])
        return old._replace(isr=value(_, old.isr)) if isinstance(old, Quorum) else old

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


def _leader_moves(bounds: Bounds) -> Iterator[Move]:  # noqa: C901
    def become_leader(epoch: int, read: Read) -> Changes:
        request = read(("request", epoch))
        if request is None or request.leader is None:
            return None
        return _follow(read, request.leader, request)

    def write(leader: int, read: Read) -> Changes:
        view = read(("view", leader))
        if view.leader != leader:
            return None
        record_id, log = read("record_id"), read(("log", leader))
        if record_id >= bounds.max_records or len(log) >= bounds.log_size:
            return None
        record = (record_id, view.leader_epoch)
        return {("log", leader): (*log, record), "record_id": record_id + 1}

    def increase_high_watermark(leader: int, read: Read) -> Changes:
        if read(("view", leader)).leader != leader:
            return None
        offset = read(("high_watermark", leader))
        if offset >= bounds.log_size:
            return None
        for follower in sorted(read(("isr", leader))):
            if read(("view", follower)).leader != leader or offset >= len(read(("log", follower))):
                return None
        return {("high_watermark", leader): offset + 1}

    for epoch in range(bounds.max_leader_epoch + 1):
        yield _move(f"BecomeLeader {epoch}", become_leader, epoch)
    for leader in range(bounds.replicas):
        yield _move(f"LeaderWrite {leader}", write, leader)
        yield _move(f"LeaderIncHighWatermark {leader}", increase_high_watermark, leader)
    yield from _isr_moves(bounds)


def _follow(read: Read, replica: int, request: Quorum) -> Changes:
    if request.leader_epoch <= read(("view", replica)).leader_epoch:
        return None
    view = View(request.leader_epoch, request.leader)
    return {("view", replica): view, ("isr", replica): request.isr}


def _isr_moves(bounds: Bounds) -> Iterator[Move]:  # noqa: C901
    def is_true_leader(read: Read, leader: int) -> bool:
        view = read(("view", leader))
        if view.leader != leader:
            return False
        quorum = read("quorum")
        return bool(quorum.leader == leader and quorum.leader_epoch == view.leader_epoch)

    def update(read: Read, leader: int, isr: frozenset[int]) -> Changes:
        return {"quorum": read("quorum")._replace(isr=isr), ("isr", leader): isr}

    def is_caught_up(read: Read, leader: int, follower: int, end_offset: int) -> bool:
        if read(("view", follower)).leader != leader:
            return False
        return end_offset == 0 or (
            end_offset <= len(read(("log", leader))) and end_offset <= len(read(("log", follower)))
        )

    def shrink(leader: int, replica: int, read: Read) -> Changes:
        if not is_true_leader(read, leader):
            return None
        isr = read(("isr", leader))
        if replica not in isr or is_caught_up(read, leader, replica, len(read(("log", leader)))):
            return None
        return update(read, leader, isr - {replica})

    def expand(leader: int, replica: int, read: Read) -> Changes:
        if not is_true_leader(read, leader):
            return None
        isr = read(("isr", leader))
        if replica in isr:
            return None
        if not is_caught_up(read, leader, replica, read(("high_watermark", leader))):
            return None
        return update(read, leader, isr | {replica})

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
        following = _follow(read, follower, request)
        if following is None:
            return None
        offset, log = truncation(read, request.leader, follower), read(("log", follower))
        if offset is None or offset > len(log):
            return None
        high_watermark = min(offset, read(("high_watermark", follower)))
        changes = {("log", follower): log[:offset], ("high_watermark", follower): high_watermark}
        return {**following, **changes}

    def replicate(follower: int, leader: int, read: Read) -> Changes:
        if read(("view", leader)).leader != leader or read(("view", follower)).leader != leader:
            return None
        own, of_leader = read(("log", follower)), read(("log", leader))
        if len(own) >= len(of_leader):
            return None
        high_watermark = min(read(("high_watermark", leader)), len(own) + 1)
        changed_log = (*own, of_leader[len(own)])
        return {("log", follower): changed_log, ("high_watermark", follower): high_watermark}

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
        if read(("view", leader)).leader != leader:
            continue
        high_watermark = read(("high_watermark", leader))
        if high_watermark == 0:
            continue
        log = read(("log", leader))
        for member in sorted(read("quorum").isr):
            other = read(("log", member))
            for offset in range(high_watermark):
                if log[offset : offset + 1] != other[offset : offset + 1] or offset >= len(log):
                    return f"{member} differs from leader {leader} at offset {offset}"
    return ""
