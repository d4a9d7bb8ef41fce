"""The runner: plays a scenario on a real cluster and leaves a sealed run directory."""

import contextlib
import os
import platform
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from kchaos.checkers import observations
from kchaos.checkers.evidence.about import OUTCOME, BrokerAbout, Outcome, RunAbout
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.evidence.links import LINKS
from kchaos.checkers.formats.point_hit import HITS
from kchaos.checkers.json_form import to_json
from kchaos.checkers.run_directory import FORMAT, MANIFEST, RunDirectory
from kchaos.checkers.signatures import digest_of, sign
from kchaos.clusters.api import Cluster
from kchaos.clusters.errors import AwaitTimeout, BrokerExited, explained
from kchaos.clusters.front.drivers import make_cluster
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.releases import release_of
from kchaos.clusters.system.interrupts import check_interrupt, interrupts_at_gates
from kchaos.clusters.system.leftovers import work_directory
from kchaos.faults.observation import observe_broker
from kchaos.faults.process.restart import start_of
from kchaos.harness.errors import ScenarioError, UsageError
from kchaos.harness.play.client_lines import ClientLines
from kchaos.harness.play.collect import collect_decisions, collect_logs
from kchaos.harness.play.play import Play
from kchaos.harness.run.ending import PLANNED, ends_run, finish
from kchaos.harness.run.own_parts import own_place
from kchaos.harness.run.scenario import Scenario, with_points
from kchaos.harness.run.settings import check_settings, kafkas_of
from kchaos.harness.run.steps_checked import check_modes, check_steps
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import Step

LATEST = "latest"
_NAME_LENGTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of playing scenarios, whichever they are.

    Attributes:
        runs_directory: Where run directories go; a link `latest` names the newest.
        offline: Never fetch anything.
        driver: One of `clusters.front.drivers.DRIVERS`.
        settle_bound_s: Seconds without progress after which replication counts as stopped; None
            for what the brokers' time-outs need.
        command: What the user typed, for the record; the replay command is made from the run.
        sign_with: A key of OpenSSH that signs the seal of each run; None for no signature.
    """

    runs_directory: Path = Path("kchaos-runs")
    offline: bool = False
    driver: str = "local"
    settle_bound_s: float | None = None
    command: tuple[str, ...] = ()
    sign_with: Path | None = None


def play(
    scenario: Scenario,
    *,
    options: RunOptions,
    say: Callable[[str], None],
    warn: Callable[[str], None] | None = None,
) -> RunDirectory:
    """Play the scenario once; return the sealed run directory, locked until it is judged.

    Args:
        scenario: What is played.
        options: How.
        say: Is told how it goes.
        warn: Is told beforehand which brokers others cannot read; None for `say`.

    A gate that times out, a broker that dies or a fault without effect ends the scenario: the
    evidence so far is collected and sealed, and `outcome.json` says why the run is unknown.

    So does a cluster that never comes up; then the evidence is what its processes logged.

    Raises:
        UsageError: There can be no run directories where they should go; nothing was started.
        ReleaseError, MachineError: The cluster cannot be had at all; no run was made.
        ScenarioError: A broker would refuse a setting, or a step is none that this cluster could
            take; no run was made.
        RunDirectoryError: The run directory cannot be written.
        SignatureError: The seal cannot be signed.
        KeyboardInterrupt: Ctrl-C; everything is healed and stopped, the run stays unsealed.
    """
    scenario = replace(scenario, cluster=with_points(scenario.cluster, scenario.steps))
    check_steps(scenario)
    _make_runs_directory(options.runs_directory)
    distributions = {
        kafka: fetch(kafka, driver=options.driver, offline=options.offline, say=say)
        for kafka in kafkas_of(scenario)
    }
    _say_what_judges(scenario, distributions, say)
    releases = {kafka: distribution.release for kafka, distribution in distributions.items()}
    for warning in check_settings(scenario, releases):
        (warn or say)(warning)
    check_modes(scenario, releases)
    started = time.time()
    with (
        interrupts_at_gates(),
        work_directory(_slug(scenario)) as work,
        contextlib.ExitStack() as stack,
    ):
        cluster = make_cluster(
            options.driver, scenario.cluster, work_directory=work, offline=options.offline, say=say
        )
        try:
            stack.enter_context(cluster)
        except (BrokerExited, AwaitTimeout) as error:
            run = _never_came_up(scenario, cluster, options, distributions, started, error)
        else:
            now = begin(scenario, cluster, options=options, started=started, say=say)
            run = _finished(scenario, now, started, options.settle_bound_s)
    say(f"sealed: {MANIFEST} has the SHA-256 {digest_of(run)}")
    if options.sign_with is not None:
        sign(run, options.sign_with)
    return run


def _say_what_judges(
    scenario: Scenario, distributions: Mapping[str, Distribution], say: Callable[[str], None]
) -> None:
    """Print by which release's rules an unpublished build is judged."""
    for kafka in sorted(
        {broker.kafka for broker in scenario.cluster.brokers if not broker.judged_as}
    ):
        release = distributions[kafka].release
        nearest = release_of(release).judged_as
        if nearest != release:
            say(
                f"{release} is judged by the rules of {nearest}, the nearest release that was "
                "published; --protocol, or judged_as, names another one"
            )


def _make_runs_directory(folder: Path) -> None:
    """Create the folder for run directories, before anything starts."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"there can be no runs in {folder}: {error.strerror}; choose another --runs-dir"
        ) from error


def _never_came_up(
    scenario: Scenario,
    cluster: Cluster,
    options: RunOptions,
    distributions: Mapping[str, Distribution],
    started: float,
    error: Exception,
) -> RunDirectory:
    """Return the sealed run of a cluster that did not start: unknown, with all logs."""
    brokers = {}
    for broker in scenario.cluster.brokers:
        kafka = distributions[broker.kafka]
        judged_as = broker.judged_as or release_of(kafka.release).judged_as
        brokers[broker.id] = BrokerAbout(
            release=kafka.release, judged_as=judged_as, build=kafka.build
        )
    run = _new_run(scenario, cluster, options, brokers, started)
    collect_decisions(run, cluster)
    collect_logs(run, cluster.work_directory)
    seconds = round(time.time() - started, 3)
    reason = f"the cluster never came up: {explained(error)}"
    run.write(OUTCOME, to_json(Outcome(unknown=reason, seconds=seconds)))
    run.seal()
    return run


def begin(
    scenario: Scenario,
    cluster: Cluster,
    *,
    options: RunOptions,
    started: float,
    say: Callable[[str], None],
) -> Play:
    """Return a new run on a cluster that has just started, and begin to write its evidence.

    `started` is the begin of the cluster's start, in seconds since the epoch.
    """
    brokers = {
        broker.id: BrokerAbout(
            release=broker.release, judged_as=broker.judged_as, build=broker.build
        )
        for broker in cluster.brokers.values()
    }
    run = _new_run(scenario, cluster, options, brokers, started)
    now = Play(cluster=cluster, run=run, say=say, is_offline=options.offline)
    now.watch.start()
    _record_links(now)
    _record_clients(now)
    _record_hits(now)
    now.observer.look_at_controller()
    for broker in cluster.brokers.values():
        now.recorder.action(start_of(broker), 0)
        now.observed(observations.Broker(**observe_broker(cluster, broker.id).to_json()))
    return now


def perform(now: Play, index: int, step: Step) -> None:
    """Perform one step until its gate holds; raise a remembered Ctrl-C before it."""
    check_interrupt()
    now.recorder.step = index
    name = type(step.do if isinstance(step, IfPossible) else step).__name__
    now.observed(observations.StepBegun(name=name))
    began = time.monotonic()
    try:
        step.perform(now)
    except Exception as error:
        place = "" if isinstance(error, PLANNED) else own_place(error)
        if not place:
            raise
        raise ScenarioError(f"{name} failed at {place}: {type(error).__name__}: {error}") from error
    finally:
        if name.startswith("Await"):
            now.waited_s += time.monotonic() - began


def _finished(
    scenario: Scenario, now: Play, started: float, settle_bound_s: float | None
) -> RunDirectory:
    """Return the sealed run after the last step; unlock a run that is given up."""
    try:
        failure = _perform_all(scenario, now)
        return finish(now, started=started, failure=failure, settle_bound_s=settle_bound_s)
    except BaseException:
        now.watch.stop()
        if now.client_lines is not None:
            now.client_lines.stop()
        now.run.let_go()
        raise


def _perform_all(scenario: Scenario, now: Play) -> Exception | None:
    """Perform every step; return what ended them early, or None."""
    try:
        for index, step in enumerate(scenario.steps):
            perform(now, index, step)
    except BaseException as error:
        if isinstance(error, Exception) and ends_run(error):
            return error
        now.kill_clients()
        try:
            now.faults.heal_all()
        except ExceptionGroup as problems:
            # What interrupted the steps is what the caller must hear of first.
            error.add_note(f"{problems}: {[str(problem) for problem in problems.exceptions]}")
        raise
    return None


def _record_links(now: Play) -> None:
    """Write every record of the links to links.jsonl, including earlier ones."""
    links = now.cluster.links
    if links is None:
        return
    links.set_sink(lambda record: now.run.append(LINKS, to_json(record)), since=1)


def _record_clients(now: Play) -> None:
    """Record the traffic of foreign clients, if links are in front of brokers."""
    links = now.cluster.links
    if links is not None and now.cluster.spec.client_links:
        now.run.begin(CLIENTS)
        now.client_lines = ClientLines(now.run.path / CLIENTS, links.topic_named)
        links.set_client_sink(now.client_lines.take)


def _record_hits(now: Play) -> None:
    """Write every hit at a point to hits.jsonl, including earlier ones."""
    if now.cluster.gate is not None:
        now.cluster.gate.set_sink(lambda hit: now.run.append(HITS, to_json(hit)))


def _new_run(
    scenario: Scenario,
    cluster: Cluster,
    options: RunOptions,
    brokers: Mapping[int, BrokerAbout],
    started: float,
) -> RunDirectory:
    """Return a new run directory with the initial facts; `brokers` describes them by id.

    The scenario is kept with the cluster's own specification, which has what the environment added.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started))
    path = options.runs_directory / f"{_slug(scenario)}-{stamp}-{os.urandom(2).hex()}"
    described = RunAbout(
        format=FORMAT,
        name=path.name,
        entry=scenario.entry,
        case=scenario.case,
        release=_release_of(scenario, brokers),
        driver=options.driver,
        **cluster.description,
        unlinked=cluster.why_unlinked if cluster.spec.linked else "",
        seed=scenario.seed,
        kchaos=version("kchaos"),
        python=platform.python_version(),
        platform=platform.platform(),
        command=shlex.join(options.command or sys.argv),
        replay=_replay_command(cluster, options, path),
        started_at=started,
        brokers=brokers,
    )
    asked = replace(scenario, cluster=cluster.spec)
    run = RunDirectory.create(path, run=to_json(described), scenario=asked.to_json())
    run.hold()
    link_latest(options.runs_directory, path)
    return run


def _release_of(scenario: Scenario, brokers: Mapping[int, BrokerAbout]) -> str:
    """Return the requested release, or the one found at a requested path.

    A scenario may start brokers of several releases, and roll them to others.
    """
    if Path(scenario.release).exists() or not scenario.release:
        return brokers[min(brokers)].release
    return scenario.release


def _replay_command(cluster: Cluster, options: RunOptions, run: Path) -> str:
    variables = [f"{name}={shlex.quote(value)} " for name, value in cluster.environment.items()]
    bound = options.settle_bound_s
    words = [] if bound is None else [f"--settle-bound {bound:g}"]
    words = ["kchaos replay", f"--driver {options.driver}", *words, shlex.quote(str(run))]
    command = " ".join(words)
    return "".join(variables) + command


def link_latest(runs_directory: Path, path: Path) -> None:
    """Point `latest` at the run by a rename, so that it is never missing.

    Where something else has that name, or the file system has no links, there is none.
    """
    temporary = runs_directory / f".{LATEST}-{os.getpid()}-{os.urandom(2).hex()}"
    with contextlib.suppress(OSError):
        temporary.symlink_to(path.name)
        try:
            temporary.rename(runs_directory / LATEST)
        finally:
            temporary.unlink(missing_ok=True)


def delete_run(path: Path) -> None:
    """Delete a run, and point `latest` to the newest that is left, if it led to this run.

    Raises:
        OSError: The disk refuses.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
    folder = path.parent
    latest = folder / LATEST
    if not latest.is_symlink() or latest.exists():
        return
    left = [file.parent for file in folder.glob("*/run.json") if file.parent != latest]
    if left:
        link_latest(folder, max(left, key=lambda run: (run.stat().st_mtime, run.name)))
    else:
        latest.unlink(missing_ok=True)


def _slug(scenario: Scenario) -> str:
    release = Path(scenario.release).name
    named = "-".join(part for part in (scenario.entry, scenario.case, release) if part)
    return re.sub(r"[^A-Za-z0-9_.+=-]+", "-", named).lstrip(".-")[:_NAME_LENGTH] or "run"
