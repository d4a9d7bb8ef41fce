"""The end of a run: everything is healed, the replicas settle, the evidence is collected."""

import time
import traceback
from dataclasses import replace
from functools import partial

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.about import OUTCOME, Outcome
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.json_form import to_json
from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.errors import AwaitTimeout, ClusterError
from kchaos.faults.errors import FaultError
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
_MOST_MOVES = 10
"""So often a partition may move between settling and the last snapshot."""


def finish(
    now: Play,
    *,
    started: float,
    failure: Exception | None,
    settle_bound_s: float | None,
) -> RunDirectory:
    """Ends a run: heals, settles, collects, stops the cluster; returns the sealed directory.

    Args:
        failure: What ended the steps early, one of `PLANNED`; the run is unknown then.
        settle_bound_s: As in `RunOptions`.
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
    if now.cluster.gate is not None:
        # Counted where no broker can come to a point any more: the lines are all written.
        counts = tuple(observations.HitsAtPoint(**hits) for hits in now.cluster.gate.counts())
        now.observed(observations.PointHits(counts=counts))
    collect_brokers(now.run, now.cluster)
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
    """Snapshot, healing, settling, last snapshot; returns what goes to outcome.json."""
    outcome = Outcome()
    try:
        try:
            try:
                now.stop_clients()
            finally:
                if failure is not None:
                    raise failure
            now.recorder.step += 1
            if now.faults.acting:
                await_quiet_without_links(now, level=True)
                take_snapshot(now, BEFORE_HEALING, is_final=False)
                now.say("healing what still acts")
        finally:
            now.faults.heal_all(lambda: await_quiet_without_links(now))
        partitions = _partitions(now)
        now.say("waiting for the replicas to settle")
        settled = _settle_and_collect(now, partitions, settle_bound_s)
        outcome = replace(outcome, settle=settled.told())
        if now.cluster.links is not None:
            now.cluster.links.check()
        if now.cluster.gate is not None:
            now.cluster.gate.check()
        check_causes_of_death(now)
        outcome = replace(outcome, finished=True)
    except PLANNED as error:
        # The run is unknown, and says why; what was seen until here is worth keeping.
        unknown = f"step {now.recorder.step}: {_said(error)}"
        outcome = replace(outcome, unknown=unknown, traceback=traceback.format_exc())
        now.observed(observations.GaveUp(reason=_said(error)))
        try:
            take_snapshot(now, FINAL, is_final=True)
        except PLANNED as problem:
            now.observed(observations.NoFinalSnapshot(reason=str(problem)))
    return outcome


def _settle_and_collect(
    now: Play, partitions: list[TopicPartition], settle_bound_s: float | None
) -> Settled:
    """Settles and takes the last snapshot; both again when a partition moved in between."""
    for _ in range(_MOST_MOVES):
        began = time.monotonic()
        settled = settle(now, partitions, bound_s=settle_bound_s)
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


def _has_moved(now: Play, partitions: list[TopicPartition], settled: Settled) -> bool:
    return bool(moved_since(now, partitions, settled))


def _said(error: Exception) -> str:
    """The error's words, and those of each that it gathers."""
    inside = error.exceptions if isinstance(error, ExceptionGroup) else ()
    return ": ".join([str(error), "; ".join(map(_said, inside))] if inside else [str(error)])


def _partitions(now: Play) -> list[TopicPartition]:
    """Every partition that the scenario made."""
    metadata = now.cluster.metadata
    return [
        TopicPartition(topic, partition)
        for topic in metadata.topics()
        for partition in metadata.assignment(topic)
    ]
