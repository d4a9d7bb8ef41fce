"""The runner: plays a scenario on a real cluster and leaves a sealed run directory."""

import contextlib
import os
import platform
import shlex
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from checkers.model.events import TopicPartition
from checkers.run_directory import RunDirectory
from clusters.api import Cluster
from clusters.errors import AwaitTimeout, ClusterError
from clusters.leftovers import new_work_directory
from clusters.spec import ClusterSpec
from faults.errors import FaultError
from harness.collect import collect_brokers, collect_zookeeper, take_snapshot
from harness.errors import HarnessError
from harness.play import Play
from harness.scenario import Scenario
from harness.settle import settle

BEFORE_HEALING = "before-healing"
FINAL = "final"
LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How scenarios are played, whichever they are.

    Attributes:
        runs_directory: Where run directories go; a link `latest` names the newest.
        offline: Never fetch anything.
        driver: "local".
        command: What the user typed, for the record; the replay command is made from the run.
    """

    runs_directory: Path = Path("kchaos-runs")
    offline: bool = False
    driver: str = "local"
    command: tuple[str, ...] = ()


def play(scenario: Scenario, *, options: RunOptions, say: Callable[[str], None]) -> RunDirectory:
    """Plays the scenario once; returns the sealed run directory.

    A gate that times out, a broker that dies or a fault without effect ends the scenario: the
    evidence so far is collected and sealed, and `outcome.json` says why the run is unknown.

    Raises:
        ReleaseError, MachineError: The cluster cannot be had at all; no run was made.
        RunDirectoryError: The run directory cannot be written.
        KeyboardInterrupt: Ctrl-C; everything is healed and stopped, the run stays unsealed.
    """
    started = time.time()
    work = new_work_directory(_slug(scenario))
    try:
        with _cluster(scenario.cluster, work, options, say) as cluster:
            run = _new_run(scenario, options, cluster, started)
            now = Play(cluster=cluster, run=run, say=say)
            now.observed("start-up", seconds=time.time() - started)
            _record_links(now)
            outcome = _perform(scenario, now)
            collect_zookeeper(now)
        collect_brokers(now)
        run.write("outcome.json", outcome | {"seconds": round(time.time() - started, 3)})
        run.seal()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return run


def _cluster(
    spec: ClusterSpec, work: Path, options: RunOptions, say: Callable[[str], None]
) -> contextlib.AbstractContextManager[Cluster]:
    from clusters.local import LocalCluster

    return LocalCluster(spec, work_directory=work, offline=options.offline, say=say)


def _perform(scenario: Scenario, now: Play) -> dict[str, Any]:
    """Steps, snapshot, healing, settling, last snapshot; returns what goes to outcome.json."""
    outcome: dict[str, Any] = {"finished": False, "unknown": None, "settle": None}
    for broker in now.cluster.brokers:
        now.action(now.start_action(broker), 0)
    try:
        try:
            for index, step in enumerate(scenario.steps):
                now.step = index
                now.observed("step", step=index, name=type(step).__name__)
                step.perform(now)
            now.step = len(scenario.steps)
            if now.healing:
                take_snapshot(now, BEFORE_HEALING, is_final=False)
                now.say("healing what still acts")
        finally:
            now.heal_all()
        partitions = _partitions(now)
        now.say("waiting for the replicas to settle")
        outcome["settle"] = settle(now, partitions).to_json()
        take_snapshot(now, FINAL, is_final=True)
        if now.cluster.links is not None:
            now.cluster.links.check()
        outcome["finished"] = True
    except (ClusterError, FaultError, HarnessError, ExceptionGroup) as error:
        # The run is unknown, and says why; what was seen until here is worth keeping.
        outcome["unknown"] = f"step {now.step}: {error}"
        outcome["traceback"] = traceback.format_exc()
        now.observed("unknown", reason=str(error))
        with contextlib.suppress(AwaitTimeout, HarnessError):
            take_snapshot(now, FINAL, is_final=True)
    return outcome


def _partitions(now: Play) -> list[TopicPartition]:
    """Every partition that the scenario made."""
    topics = sorted(now.cluster.zookeeper().get_children("/brokers/topics"))
    return [
        TopicPartition(topic, partition)
        for topic in topics
        if not topic.startswith("__")
        for partition in sorted(now.assignment(topic))
    ]


def _record_links(now: Play) -> None:
    """Writes every record of the links to links.jsonl, those from before as well."""
    links = now.cluster.links
    if links is None:
        return
    written: set[int] = set()
    lock = threading.Lock()

    def write(record: Any) -> None:
        with lock:
            if record.sequence not in written:
                written.add(record.sequence)
                now.run.append("links.jsonl", record.to_json())

    links.set_sink(write)
    for record in links.log():
        write(record)


def _new_run(
    scenario: Scenario, options: RunOptions, cluster: Cluster, started: float
) -> RunDirectory:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
    path = options.runs_directory / f"{_slug(scenario)}-{stamp}-{os.urandom(2).hex()}"
    run = RunDirectory.create(
        path,
        run={
            "entry": scenario.entry,
            "case": scenario.case,
            "release": cluster.brokers[min(cluster.brokers)].release,
            "driver": options.driver,
            "seed": scenario.seed,
            "kchaos": version("kchaos"),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "command": shlex.join(options.command or sys.argv),
            "replay": f"kchaos replay {shlex.quote(str(path))}",
            "started_at": started,
            "probe_topics": [],
            "brokers": {
                str(broker.id): {"release": broker.release, "protocol": broker.protocol}
                for broker in cluster.brokers.values()
            },
        },
        scenario=scenario.to_json(),
    )
    _link_latest(options.runs_directory, path)
    return run


def _link_latest(runs_directory: Path, path: Path) -> None:
    """Points `latest` at the run; whoever renames last wins, and nobody sees it missing."""
    temporary = runs_directory / f".{LATEST}-{os.getpid()}-{os.urandom(2).hex()}"
    temporary.symlink_to(path.name)
    temporary.rename(runs_directory / LATEST)


def _slug(scenario: Scenario) -> str:
    release = Path(scenario.release).name
    return "-".join(part for part in (scenario.entry, scenario.case, release) if part)
