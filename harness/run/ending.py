"""The end of a run: everything is healed, the replicas settle, the evidence is collected."""

import contextlib
import re
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.about import OUTCOME, SCENARIO, Outcome
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
from kchaos.harness.exits import exit_code_of
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
"""Errors that may end a run early."""
_STARTED = re.compile(r"\bstarted \(kafka\.server\.Kafka")
"""Log line of a server that has started, in either mode."""
_MOST_MOVES = 10
"""So often a partition may move between settling and the last snapshot."""


def ends_run(error: BaseException) -> bool:
    """Return whether the evidence is sealed after this error: a planned one, or a defect of kchaos.

    Ctrl-C, and a machine that refuses what evidence needs, leave the run unsealed.
    """
    is_defect = isinstance(error, Exception) and exit_code_of(error) is None
    return isinstance(error, PLANNED) or is_defect


def finish(
    now: Play, *, started: float, failure: Exception | None, settle_bound_s: float | None
) -> RunDirectory:
    """End a run: heal, settle, collect, stop the cluster; return the sealed directory.

    `failure` ended the steps early, and `ends_run`. The cluster heals and settles all the same,
    since it keeps what it has lost. `settle_bound_s` is as in `RunOptions`.

    What `ends_run` here makes the run unknown; its evidence is sealed all the same.
    """
    ending = _Ending(now)
    _come_to_rest(ending, failure, settle_bound_s)
    if now.cluster.has_given_addresses:
        now.observed(observations.AddressesGiven(to="clients that are not kchaos's own"))
    if now.cluster.links is not None:
        # A cluster goes on to decide, and what is copied next has no decisions of later messages.
        now.cluster.links.set_sink(None)
    with ending.losing_evidence():
        collect_decisions(now.run, now.cluster)
    with ending.losing_evidence():
        now.cluster.stop()
        now.clients.join()
        if now.client_lines is not None:
            now.client_lines.end()
    with ending.losing_evidence():
        collect_brokers(now.run, now.cluster)
    outcome = replace(ending.outcome, finished=not ending.outcome.ended_early)
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


@dataclass(slots=True)
class _Ending:
    """The outcome of a run while it ends.

    Attributes:
        errors: What failed on the way.
    """

    now: Play
    outcome: Outcome = field(default_factory=Outcome)
    errors: list[Exception] = field(default_factory=list)

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """Note an error that `ends_run`, and go on."""
        try:
            yield
        except Exception as error:
            if not ends_run(error):
                raise
            self.note(error)

    @contextlib.contextmanager
    def losing_evidence(self) -> Iterator[None]:
        """Do as `trying`; after an error nothing that was seen can be relied upon."""
        count = len(self.errors)
        with self.trying():
            yield
        for error in self.errors[count:]:
            unknown = self.outcome.unknown or _said(error)
            self.outcome = replace(self.outcome, unknown=unknown)

    def note(self, error: Exception) -> None:
        """Note why the run did not come to its end; the first reason stays.

        After what the machine, and not Kafka, refused or ended, nothing can be relied upon; nor
        after a defect of kchaos.
        """
        self.now.observed(observations.GaveUp(reason=_said(error)))
        self.errors.append(error)
        unknown = "" if isinstance(error, PLANNED) else _defect(error)
        if any(map(_is_of_the_machine, _inside(error))):
            unknown = _said(error)
        if unknown and not self.outcome.unknown:
            trace = "".join(traceback.format_exception(error))
            self.outcome = replace(self.outcome, unknown=unknown, traceback=trace)
        if not self.outcome.ended_early:
            self.outcome = replace(
                self.outcome,
                ended_early=f"step {self.now.recorder.step}: {_said(error)}",
                traceback="".join(traceback.format_exception(error)),
            )


def _defect(error: Exception) -> str:
    """Return the sentence that names a defect of kchaos and its place."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return (
        f"kchaos itself failed at {place}: {type(error).__name__}: {error}; this is a defect of "
        "kchaos: please report it with the traceback of outcome.json"
    )


def _come_to_rest(ending: _Ending, failure: Exception | None, settle_bound_s: float | None) -> None:
    """Take a snapshot, heal, settle and take the last one."""
    now = ending.now
    if failure is not None:
        ending.note(failure)
    with ending.trying():
        now.stop_clients()
    # The end comes after every step, also after those that were not performed.
    now.recorder.step = len(now.run.read(SCENARIO)["steps"])
    with ending.trying():
        _before_healing(now)
    count = len(ending.errors)
    with ending.trying():
        now.faults.heal_all(lambda: await_quiet_without_links(now))
        if ending.outcome.ended_early or now.has_failed_heal:
            _start_once_more(now)
    if all(map(_is_kafka_s_own, ending.errors[count:])):
        with ending.trying():
            now.say("waiting for the replicas to settle")
            settled = _settle_and_collect(now, settle_bound_s)
            ending.outcome = replace(ending.outcome, settle=settled.told())
    if ending.outcome.settle is None:
        with ending.trying():
            take_snapshot(now, FINAL, is_final=True)
    with ending.losing_evidence():
        _check_evidence(now)


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
