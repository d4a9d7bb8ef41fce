"""Cross-check of acts: what ends a process beside how it ended."""

from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.acts import StartBroker, StopBroker
from kchaos.checkers.evidence.about import number_in
from kchaos.checkers.evidence.observed import OBSERVATIONS
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.observations import Act, BrokerGone

_KILLED = -9
"""Exit code of a process that SIGKILL ended."""
_STOPPED = 143
"""Exit code of a JVM that SIGTERM ended."""


def acts_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield where the end of a process contradicts the act that ended it.

    **Verifies**: that each process ended by the signal that its act sends.
    **Does not verify**: acts themselves, which kchaos alone writes down; that a step asked for each
    decision, for a user's own admin client may have asked.
    """
    if not evidence.files.has(OBSERVATIONS):
        yield f"{OBSERVATIONS} is missing"
    yield from _ended_otherwise(evidence)


def _ended_otherwise(evidence: RunEvidence) -> Iterator[str]:
    """Yield stopped processes that SIGKILL ended, and killed ones that SIGTERM ended."""
    stops: dict[tuple[int, int], bool] = {}
    for line in evidence.observed:
        match line.what:
            case Act(act=StopBroker() as act):
                stops[line.step, act.broker] = act.clean
            case BrokerGone(broker=broker, exit_code=exit_code):
                clean = stops.pop((line.step, broker), None)
                if clean is not None and exit_code == (_KILLED if clean else _STOPPED):
                    how = "asked to stop" if clean else "killed"
                    yield f"{line.read_at}: broker {broker} was {how}, and ended with {exit_code}"


def settings_of(start: StartBroker) -> tuple[object, ...]:
    """Return the settings with which a broker was started, in the form of `settings_in`."""
    return (
        start.inter_broker_protocol,
        start.message_format,
        start.unclean_leader_election,
        start.min_insync_replicas,
        start.replica_fetchers,
    )


def settings_in(properties: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the broker's properties that a start in actions.jsonl names."""
    return (
        properties.get("inter.broker.protocol.version"),
        properties.get("log.message.format.version"),
        properties.get("unclean.leader.election.enable") == "true",
        1 if (least := number_in(properties, "min.insync.replicas")) is None else least,
        1 if (count := number_in(properties, "num.replica.fetchers")) is None else count,
    )
