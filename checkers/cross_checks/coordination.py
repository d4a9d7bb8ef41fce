"""Cross-check of ZooKeeper's log: beside itself and beside everything that names a zxid.

ZooKeeper numbers every transaction, failed ones too, and every write to a znode. So a transaction
that was taken out or put in shows, unless all numbers behind it were changed as well.
"""

import itertools
from collections.abc import Iterator

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.zookeeper import controller_epochs, controller_of
from kchaos.checkers.model.releases.composition import asks_controller_for_isr
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.zookeeper_log import ZnodeChange, zxids

_EPOCH_BITS = 32
_CLOCK_STEPS_BACK_MS = 5_000


def coordination_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield where ZooKeeper's log cannot be its own work, or ends before it was observed.

    A KRaft cluster has none: see `cross_checks.metadata`.

    **Verifies**: that there is a log; that it begins with the first transaction and lacks none up
    to its last, which is not before any that an action or a snapshot names; that every znode is
    created before it is set or deleted, and its version counts its writes; that times do not go
    back by more than seconds; that only sessions which are a broker's write partition states, and
    leaders none where each asks the controller (KIP-497); that `/controller_epoch` counts one by
    one.
    **Does not verify**: what comes behind the last zxid that anything names.
    """
    if evidence.is_kraft:
        return
    numbers = [list(zxids(member)) for member in evidence.zookeeper_logs]
    if not any(numbers):
        yield "there is no log of ZooKeeper: who led, and who was in sync, is written nowhere else"
        return
    for member in numbers:
        yield from _gaps(member)
    last = max(max(member, default=-1) for member in numbers)
    named = [action.zxid for action in evidence.actions]
    named += [snapshot.zxid for snapshot in evidence.snapshots]
    # A leader begins its term with a proposal that is no transaction: its zxid is in no log.
    named = [zxid for zxid in named if zxid & ((1 << _EPOCH_BITS) - 1)]
    if named and max(named) > last and not evidence.is_migration:
        yield f"ZooKeeper's log ends at zxid {last}, and {max(named)} was seen"
    yield from _impossible_writes(evidence.znode_changes)
    yield from _strangers(evidence.znode_changes)
    started = [timed.event for timed in evidence.events if isinstance(timed.event, StartBroker)]
    if all(asks_controller_for_isr(timed) for timed in started):
        yield from _by_leaders(evidence)


def _gaps(member: list[int]) -> Iterator[str]:
    if member and member[0] & ((1 << _EPOCH_BITS) - 1) > 1:
        yield f"ZooKeeper's log begins with zxid {member[0]}: the earlier part is missing"
    for zxid, following in itertools.pairwise(member):
        is_new_term = following >> _EPOCH_BITS > zxid >> _EPOCH_BITS
        if following != zxid + 1 and not is_new_term:
            yield f"in ZooKeeper's log zxid {following} follows {zxid}"


def _impossible_writes(changes: tuple[ZnodeChange, ...]) -> Iterator[str]:
    versions: dict[str, int] = {}
    latest = 0
    for change in changes:
        path, where = change.path, f"zxid {change.zxid}: {change.path}"
        if change.time_ms < latest - _CLOCK_STEPS_BACK_MS:
            yield f"{where} was written {(latest - change.time_ms) / 1000:g} s before what precedes"
        latest = max(latest, change.time_ms)
        if change.operation == "create":
            if path in versions:
                yield f"{where} is created although it is there"
            versions[path] = 0
        elif path not in versions:
            # What ZooKeeper itself makes at its first start is in no log.
            if not path.startswith("/zookeeper"):
                yield f"{where} is {change.operation} although nobody created it"
        elif change.operation == "delete":
            del versions[path]
        else:
            versions[path] += 1
            if change.version != versions[path]:
                yield f"{where} has version {change.version} after {versions[path]} writes"


def _strangers(changes: tuple[ZnodeChange, ...]) -> Iterator[str]:
    owners = {
        znode_change.session
        for znode_change in changes
        if _is_broker_s(znode_change.path)
        # A KRaft controller's claim is no ephemeral znode.
        and (znode_change.ephemeral_owner or znode_change.operation == "create")
    }
    broker_of: dict[int, int] = {}
    ended: set[int] = set()
    epoch: int | None = None
    for change in changes:
        if change.session in ended and change.operation != "delete":
            yield f"zxid {change.zxid}: {change.path} was written by a session that had ended"
        if change.path.startswith("/brokers/ids/"):
            if change.operation == "delete":
                ended.add(change.ephemeral_owner)
            yield from _one_broker(broker_of, change, change.path.rpartition("/")[2])
        elif change.path == "/controller" and change.data:
            yield from _one_broker(broker_of, change, str(controller_of(change)))
        if change.path.endswith("/state") and change.path.startswith("/brokers/topics/"):
            if change.operation != "delete" and change.session not in owners:
                yield f"zxid {change.zxid}: {change.path} was written by no known session"
        elif change.path == "/controller_epoch" and change.data is not None:
            now = int(change.data) if change.data.isdigit() else -1
            if now < 0 or (epoch is not None and now != epoch + 1):
                yield f"zxid {change.zxid}: /controller_epoch went from {epoch} to {change.data!r}"
            epoch = now


def _by_leaders(evidence: RunEvidence) -> Iterator[str]:
    taken = controller_epochs(evidence.znode_changes)
    for timed in evidence.decisions:
        state = timed.event
        if not isinstance(state, PartitionState) or state.controller_epoch not in taken:
            continue
        controller, _ = taken[state.controller_epoch]
        if state.written_by not in (None, controller):
            yield (
                f"zxid {state.zxid}: the state of {state.topic}-{state.partition} was written by "
                f"broker {state.written_by}, and all ask the controller, broker {controller}"
            )


def _one_broker(broker_of: dict[int, int], change: ZnodeChange, broker: str) -> Iterator[str]:
    """Yield changes by which a session would belong to more than one broker."""
    if change.operation != "create" or not broker.isdecimal():
        return
    known = broker_of.setdefault(change.session, int(broker))
    if known != int(broker):
        yield f"zxid {change.zxid}: {change.path} is broker {broker}'s, by broker {known}'s session"


def _is_broker_s(path: str) -> bool:
    return path == "/controller" or path.startswith("/brokers/ids/")
