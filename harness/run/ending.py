"""The end of a run: everything is healed, the replicas settle, the evidence is collected."""

import re
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.about import OUTCOME, SCENARIO, Outcome
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.json_form import to_json
from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.errors import (
    AwaitTimeout,
    BrokerExited,
    ClusterError,
    MachineError,
    ReleaseError,
)
from kchaos.faults.errors import FaultError
from kchaos.faults.process.restart import start_again
from kchaos.harness.errors import HarnessError
from kchaos.harness.gates.gates import check_causes_of_death
from kchaos.harness.gates.quiet import await_quiet_without_links
from kchaos.harness.gates.settle import moved_since, settle
from kchaos.harness.gates.settled import Settled
from kchaos.harness.play.collect import collect_brokers, collect_decisions, take_snapshot
from kchaos.harness.play.play import Play
from kchaos.harness.steps.tier_reading import read_tiered_logs

BEFORE_HEALING = "before-healing"
FINAL = "final"
PLANNED = (ClusterError, FaultError, HarnessError, ExceptionGroup)
"""Errors that may end a run early. Anything else is a defect of kchaos, or Ctrl-C."""
_STARTED = re.compile(r"\bstarted \(kafka\.server\.Kafka")
"""Log line of a server that has started, in either mode."""
_MOST_MOVES = 10
"""So often a partition may move between settling and the last snapshot."""


def finish(
    now: Play, *, started: float, failure: Exception | None, settle_bound_s: float | None
) -> RunDirectory:
    """End a run: heal, settle, collect, stop the cluster; return the sealed directory.

    `failure` ended the steps early and is one of `PLANNED`. The cluster heals and settles all the
    same, since it keeps what it has lost. `settle_bound_s` is as in `RunOptions`.
    """
    outcome = _come_to_rest(now, failure, settle_bound_s)
    if now.cluster.has_given_addresses:
        now.observed(observations.AddressesGiven(to="clients that are not kchaos's own"))
    if now.cluster.links is not None:
        # A cluster goes on to decide, and what is copied next has no decisions of later messages.
        now.cluster.links.set_sink(None)
    collect_decisions(now.run, now.cluster)
    now.cluster.stop()
    now.clients.join()
    _write_clients(now)
    collect_brokers(now.run, now.cluster)
    now.watch.stop()
    stood_still = tuple(observations.Standstill(**asdict(each)) for each in now.watch.seen)
    # The last observation: until here evidence was written, which takes as long as there is of it.
    now.observed(observations.StoodStill(times=stood_still))
    seconds = round(time.time() - started, 3)
    waited_s = round(now.waited_s, 3)
    now.run.write(OUTCOME, to_json(replace(outcome, seconds=seconds, waited_s=waited_s)))
    now.say(f"{waited_s:.1f} of {seconds:.1f} s went into waiting for observed conditions")
    now.run.seal()
    return now.run


def _write_clients(now: Play) -> None:
    """Write clients.jsonl, now that no message of a client can come any more."""
    if now.client_lines is not None and now.cluster.links is not None:
        now.run.begin(CLIENTS)
        for line in now.client_lines.lines(now.cluster.links.topic_named):
            now.run.append(CLIENTS, to_json(line))


def _come_to_rest(now: Play, failure: Exception | None, settle_bound_s: float | None) -> Outcome:
    """Take a snapshot, heal, settle and take the last one; return the content of outcome.json."""
    outcome = Outcome()
    if failure is not None:
        outcome = _ended(now, outcome, failure)
    try:
        now.stop_clients()
    except PLANNED as error:
        outcome = _ended(now, outcome, error)
    # The end comes after every step, also after those that were not performed.
    now.recorder.step = len(now.run.read(SCENARIO)["steps"])
    try:
        _before_healing(now)
    except PLANNED as error:
        outcome = _ended(now, outcome, error)
    is_healed = True
    try:
        now.faults.heal_all(lambda: await_quiet_without_links(now))
        if outcome.ended_early:
            _start_once_more(now)
    except PLANNED as error:
        outcome = _ended(now, outcome, error)
        is_healed = _is_kafka_s_own(error)
    try:
        if is_healed:
            now.say("waiting for the replicas to settle")
            settled = _settle_and_collect(now, settle_bound_s)
            outcome = replace(outcome, settle=settled.told())
    except PLANNED as error:
        outcome = _ended(now, outcome, error)
    if outcome.settle is None:
        try:
            take_snapshot(now, FINAL, is_final=True)
        except PLANNED as problem:
            now.observed(observations.WaitedInVain(detail=str(problem)))
    try:
        _check_evidence(now)
    except PLANNED as error:
        outcome = replace(_ended(now, outcome, error), unknown=_said(error))
    return replace(outcome, finished=not outcome.ended_early)


def _before_healing(now: Play) -> None:
    """Copy the replicas while faults act: what is fetched after healing hides truncations."""
    if now.faults.acting:
        await_quiet_without_links(now, level=True)
        take_snapshot(now, BEFORE_HEALING, is_final=False)
        now.say("healing what still acts")


def _start_once_more(now: Play) -> None:
    """Start brokers whose last start failed: a fault may have kept one from the controllers.

    Raises:
        BrokerExited, AwaitTimeout: One does not start again: nothing keeps it any more.
    """
    for broker in now.cluster.brokers.values():
        has_started = bool(now.observer.log_lines(broker.id, _STARTED))
        if not broker.is_running and not broker.cause_of_death and not has_started:
            start_again(now.cluster, now, broker, above_czxid=0)


def _is_kafka_s_own(error: Exception) -> bool:
    """Return whether everything was healed, and only what was waited for after it did not come."""
    return all(isinstance(problem, AwaitTimeout | BrokerExited) for problem in _inside(error))


def _check_evidence(now: Play) -> None:
    """Check that links and points did what they say, and that nobody else ended a broker.

    Raises:
        ClusterError: Nothing that was seen can be relied upon.
    """
    if now.cluster.links is not None:
        now.cluster.links.check()
    if now.cluster.gate is not None:
        now.cluster.gate.check()
    check_causes_of_death(now)


def _ended(now: Play, outcome: Outcome, error: Exception) -> Outcome:
    """Return the outcome with the first reason why the run did not come to its end.

    After what the machine, and not Kafka, refused or ended, nothing can be relied upon.
    """
    now.observed(observations.GaveUp(reason=_said(error)))
    if outcome.ended_early:
        return outcome
    return replace(
        outcome,
        unknown=_said(error) if any(map(_is_of_the_machine, _inside(error))) else outcome.unknown,
        ended_early=f"step {now.recorder.step}: {_said(error)}",
        traceback="".join(traceback.format_exception(error)),
    )


def _settle_and_collect(now: Play, settle_bound_s: float | None) -> Settled:
    """Settle and take the last snapshot; repeat both if a partition moved in between."""
    for _ in range(_MOST_MOVES):
        began = time.monotonic()
        settled = settle(now, bound_s=settle_bound_s)
        partitions = settled.partitions
        now.waited_s += time.monotonic() - began
        if now.cluster.spec.tiered:
            read_tiered_logs(now, partitions, name="end")
        # What has not come to rest may move on and on; the settle record says so.
        rested = partitions if settled.state == "converged" else []
        if take_snapshot(
            now, FINAL, is_final=True, has_moved=partial(_has_moved, now, rested, settled)
        ):
            return settled
        now.say("a partition moved while it was copied: settling again")
    raise AwaitTimeout(
        waited_for="the partitions to stay in one state while they were copied",
        last_seen=f"{_MOST_MOVES} copies, a partition moved during each",
        remedy="see the controllers' logs",
        timeout_s=time.monotonic() - began,
    )


def _has_moved(now: Play, partitions: Sequence[TopicPartition], settled: Settled) -> bool:
    return bool(moved_since(now, partitions, settled))


def _is_of_the_machine(error: Exception) -> bool:
    is_zookeeper = isinstance(error, BrokerExited) and error.name.startswith("zookeeper")
    return is_zookeeper or isinstance(error, MachineError | ReleaseError)


def _inside(error: Exception) -> Iterator[Exception]:
    """Yield the error, or each that it gathers."""
    if isinstance(error, ExceptionGroup):
        for each in error.exceptions:
            yield from _inside(each)
    else:
        yield error


def _said(error: Exception) -> str:
    """Return the error's text, and the texts of its grouped errors."""
    inside = error.exceptions if isinstance(error, ExceptionGroup) else ()
    return ": ".join([str(error), "; ".join(map(_said, inside))] if inside else [str(error)])
