"""Controllers of KRaft that go on to lead when another one was elected in their place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from kchaos.checkers.acts import PauseBroker, ResumeBroker, StartBroker, StopBroker
from kchaos.checkers.evidence.about import number_in
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.observations import Act

LEAST_S = 14.0
"""From how many seconds on it is a finding, where no fetch of the quorum may take longer."""
_FETCHES = 5
_FETCH_MS = 2000
_TIMED = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
# org.apache.kafka.raft.QuorumState.durableTransitionTo and memoryTransitionTo, 3.3 to 4.1.
_TRANSITION = re.compile(r"Completed transition to (?P<role>\w+)\(.*?\bepoch=(?P<epoch>\d{1,9})")
_ZONE_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    """Role of a controller from one line of its log to another; times by that log's clock."""

    node: int
    epoch: int
    leads: bool
    begun: float
    ended: float


def two_controllers(evidence: RunEvidence) -> Iterator[tuple[Finding, float]]:
    """Yield each controller that took itself for the leader long after a later one was elected.

    With it the seconds of standstill that may explain it, 0.0 if they do not.

    What it hears of then it can never decide, and a broker that asks it hears of no decision
    (KAFKA-15489). From 3.7 on a leader resigns that most voters do not fetch from
    (LeaderState.timeUntilCheckQuorumExpires).

    **Verifies**: every change of role in controllers' logs, but for the time in which the scenario
    had the process paused or stopped, or in which the machine let nothing run.
    **Does not verify**: that a broker asked it.
    """
    if not evidence.is_kraft:
        return
    roles = [role for node in evidence.controller_logs for role in _roles(evidence, node)]
    fetch_ms = number_in(evidence.scenario.cluster.properties, "controller.quorum.fetch.timeout.ms")
    bound = max(LEAST_S, _FETCHES * (fetch_ms or _FETCH_MS) / 1000)
    ahead = _zone_s(evidence, roles)
    for old in (role for role in roles if role.leads):
        later = [role for role in roles if role.leads and role.epoch > old.epoch]
        if not later:
            continue
        new = min(later, key=lambda role: role.begun)
        seconds = old.ended - new.begun - _away_s(evidence, old.node, new.begun, old.ended, ahead)
        stood = evidence.stood_still_s(new.begun - ahead, old.ended - ahead)
        if seconds >= bound:
            finding = Finding(
                kind="two-controllers",
                brokers=(old.node,),
                message=f"controller {old.node} went on to lead in epoch {old.epoch} for "
                f"{seconds:.1f} s after controller {new.node} was elected in epoch {new.epoch}",
                evidence={"from": new.begun - ahead, "to": old.ended - ahead, "bound_s": bound},
            )
            yield finding, 0.0 if seconds - stood >= bound else stood


def _roles(evidence: RunEvidence, node: int) -> Iterator[_Role]:
    changes: list[tuple[float, str, int]] = []
    latest = 0.0
    for line in evidence.controller_logs[node]:
        if (timed := _TIMED.match(line)) is None:
            continue
        latest = _seconds(timed[1])
        if change := _TRANSITION.search(line):
            changes.append((latest, change["role"], int(change["epoch"])))
    for (begun, role, epoch), (ended, _, _) in pairwise([*changes, (latest, "", 0)]):
        is_leader = role.startswith("Leader")
        yield _Role(node=node, epoch=epoch, leads=is_leader, begun=begun, ended=ended)


def _seconds(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()


def _zone_s(evidence: RunEvidence, roles: list[_Role]) -> float:
    """Return by how many seconds the logs' clock is ahead of the metadata log's: the time zone."""
    written = {change.leader_epoch: change.time_ms / 1000 for change in evidence.leader_changes}
    for role in roles:
        if role.leads and role.epoch in written:
            return round((role.begun - written[role.epoch]) / _ZONE_S) * _ZONE_S
    return 0.0


def _away_s(evidence: RunEvidence, node: int, begun: float, ended: float, ahead: float) -> float:
    """Return for how long in between the process of a controller was paused or did not run."""
    away, since = 0.0, None
    for line, seen in lines_of(evidence.observed, Act):
        if getattr(seen.act, "broker", None) != node:
            continue
        time = min(max(line.time + ahead, begun), ended)
        if isinstance(seen.act, PauseBroker | StopBroker):
            since = time if since is None else since
        elif isinstance(seen.act, ResumeBroker | StartBroker) and since is not None:
            away, since = away + time - since, None
    return away if since is None else away + ended - since
