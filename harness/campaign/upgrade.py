"""`kchaos upgrade`: Kafka's upgrade procedure on real brokers, and a page to sign off."""

import json
import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kchaos.checkers.acts import Mode
from kchaos.checkers.run_line import RunLine
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.releases import release_of
from kchaos.faults import RollBroker
from kchaos.harness.campaign.campaign import Campaign, player_in, time_left
from kchaos.harness.errors import UsageError
from kchaos.harness.exits import AS_EXPECTED, FINDING, UNKNOWN
from kchaos.harness.play.workload import command_in
from kchaos.harness.player.drawing import LEAST_BROKERS
from kchaos.harness.printable import wrapped
from kchaos.harness.run.own_settings import own_settings
from kchaos.harness.run.own_topics import own_topics
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.seeds import seed_text
from kchaos.harness.steps.scenario_steps import Inject
from kchaos.harness.upgrades.notes import change_texts, rules_between
from kchaos.harness.upgrades.pairs import mode_of, require_migration, via_of
from kchaos.harness.upgrades.procedure import Upgrade, draw_upgrade, phases, require_upgrade
from kchaos.harness.upgrades.rendering import PAGE, headline, hop_texts, supported, write_sign_off
from kchaos.harness.upgrades.sign_off import GREEN, RED, SAFE, SignOff, run_of

_OWN_JAR = re.compile(r"kafka_2\.\d+-[^/]*\.jar")


def upgrade_of(
    older: Sequence[str],
    newer: Sequence[str],
    build: Path | None,
    *,
    back: bool,
    one_roll: bool,
    mix: str,
    stepped: bool,
    workload: str | None,
    unsupported: bool,
    options: RunOptions,
    say: Callable[[str], None],
    mode: Mode | None = None,
    controllers: int = 1,
    finalize: bool = False,
    dynamic_quorum: bool = False,
    migrates: bool = False,
    back_from: str = "",
    properties: Path | None = None,
    topics: Path | None = None,
    brokers: int = LEAST_BROKERS,
    racks: int = 0,
    log_directories: int = 1,
) -> Upgrade:
    """Return the upgrade of these releases or builds.

    `older` and `newer` are as on the command line. `build` is the user's own build in place of the
    newer one, `workload` a command as in a shell, `properties` a server.properties, and `topics` a
    file of described topics, if any.

    Raises:
        UsageError: It is not one pair, or none that can be played, or Kafka does not support it.
        ReleaseError, MachineError: There is no such Kafka, or it cannot be had.
    """
    if migrates and not newer:
        newer = older
    if not newer and build is None:
        raise UsageError("the target of the upgrade is missing: --to RELEASE or --to-build PATH")
    if len(older) > 1 or len(newer) > 1:
        raise UsageError(
            f"one command runs one pair, and not from {' and '.join(older)} to "
            f"{' and '.join(newer)}: run each pair by itself"
        )
    claimed = release_of(newer[0]).text if newer else ""
    if build is not None:
        kafka = fetch(str(build), driver=options.driver, offline=options.offline, say=say)
        nearest = release_of(kafka.release).judged_as
        if claimed and release_of(nearest).number != release_of(claimed).number:
            than = "older" if release_of(nearest) < release_of(claimed) else "newer"
            raise UsageError(
                f"{build} says that it is {kafka.release}, which is {than} than {claimed}: name "
                f"the release that it follows, --to {nearest}"
            )
        claimed = nearest
    older_release = _release(older[0], options, say)
    oldest = release_of(older_release)
    newest = release_of(claimed)
    via = via_of(oldest, newest, mode, migrates=migrates)
    of_mode = "zookeeper" if via else mode_of(oldest, newest, mode)
    if migrates and not via:
        require_migration(oldest, newest)
    own, ids = None, tuple(range(brokers))
    if properties is not None:
        own = own_settings(properties, oldest, is_kraft=of_mode == "kraft", brokers=brokers)
    upgrade = Upgrade(
        older=older[0],
        newer=str(build) if build is not None else claimed,
        older_release=older_release,
        newer_release=claimed,
        back=back,
        finalize=finalize,
        dynamic_quorum=dynamic_quorum,
        one_roll=one_roll,
        mix=mix,
        stepped=stepped,
        workload=() if workload is None else command_in(workload),
        own=own,
        own_topics=None if topics is None else own_topics(topics, oldest, ids),
        brokers=ids,
        racks=racks,
        log_directories=log_directories,
        mode=of_mode,
        controllers=controllers,
        migrates=migrates or bool(via),
        via=via,
        back_from=back_from,
    )
    require_upgrade(upgrade, unsupported=unsupported)
    return upgrade


def _release(kafka: str, options: RunOptions, say: Callable[[str], None]) -> str:
    if not Path(kafka).exists():
        return release_of(kafka).text
    distribution = fetch(kafka, driver=options.driver, offline=options.offline, say=say)
    return release_of(distribution.release).judged_as


def play_upgrade(
    upgrade: Upgrade,
    *,
    runs: int,
    seed: int,
    side_by_side: int,
    folder: Path | None,
    options: RunOptions,
    say: Callable[[str], None],
    done: Callable[[RunLine], None],
) -> tuple[SignOff, Path]:
    """Play and judge the runs; return the exit code, the sign-off and its page's path.

    The page is written anew after each run; while some are missing it is unknown, or red.
    """
    # A broken or unknown Kafka is refused before the first cluster starts.
    digests = {
        name: digest_of(fetch(kafka, driver=options.driver, offline=options.offline, say=say))
        for hop in upgrade.hops
        for name, kafka in zip(hop.names, (hop.older, hop.newer), strict=True)
    }
    folder = folder or options.runs_directory / f"sign-off-{upgrade.case}-{seed}"
    runs_text = "1 run" if runs == 1 else f"{runs} runs"
    say(f"{upgrade.pair}: {runs_text}, seeds from {seed_text(seed)} on")
    paths: dict[int, Path] = {}
    began = time.monotonic()
    gained, missing = rules_of(upgrade)

    def signed() -> SignOff:
        return SignOff(
            upgrade=upgrade,
            runs=[run_of(paths[number], upgrade) for number in sorted(paths)],
            wanted=runs,
            command=command_of(upgrade, runs=runs, seed=seed),
            gained=gained,
            missing=missing,
            notes=notes_of(upgrade),
            digests=digests,
        )

    def keep(scenario: Scenario, line: RunLine) -> None:
        if not line.run:
            say(f"seed {scenario.seed}: {line.unknown}")
            return
        paths[scenario.seed] = Path(line.run)
        result = signed()
        write_sign_off(result, folder)
        last = result.runs[sorted(paths).index(scenario.seed)]
        why = f": {last.why}" if last.why else ""
        left = time_left(time.monotonic() - began, len(paths), runs, at_once=side_by_side)
        say(f"{len(paths)} of {runs}{left}: seed {scenario.seed} is {last.answer}{why}")
        done(line)

    scenarios = (draw_upgrade(seed + number, upgrade) for number in range(runs))
    in_turn = say if runs == 1 else None
    with player_in("upgrade", options, say_steps=in_turn) as player:
        campaign = Campaign(player=player, side_by_side=side_by_side)
        campaign.run(scenarios, lambda scenario: scenario, keep)
    return signed(), folder / PAGE


def exit_code_of_upgrade(result: SignOff) -> int:
    """Return the exit code: 0 green, or safe where nothing more is judged; 1 red, 2 unknown."""
    return {GREEN: AS_EXPECTED, SAFE: AS_EXPECTED, RED: FINDING}.get(result.answer, UNKNOWN)


def digest_of(kafka: Distribution) -> str:
    """Return the SHA-256 of Kafka's own jar, or a build's place and digest."""
    own = [digest for name, digest in kafka.digests.items() if _OWN_JAR.fullmatch(name)]
    return kafka.build or (f"sha256:{own[0]}" if own else "no digest is known")


def rules_of(upgrade: Upgrade) -> tuple[list[str], list[str]]:
    """Return the rules of replication that only the newer release has, and only the older.

    Both are empty for a release whose rules nobody has read.
    """
    try:
        changes = rules_between(upgrade.older_release, upgrade.newer_release)
    except UsageError:
        return [], []
    both = [
        (change.is_gained, f"{change.rule.name} ({change.rule.releases}): {change.rule.meaning}")
        for change in changes
    ]
    return [text for gained, text in both if gained], [text for gained, text in both if not gained]


def notes_of(upgrade: Upgrade) -> list[str]:
    """Return the notes of Kafka's upgrade page after the older release, up to the newer."""
    return change_texts(release_of(upgrade.older_release), release_of(upgrade.newer_release))


def command_of(upgrade: Upgrade, *, runs: int, seed: int) -> str:
    """Command that plays the same runs again."""
    words = ["kchaos", "upgrade", "--from", upgrade.older, "--to", upgrade.newer_release]
    words += ["--to-build", upgrade.newer] if upgrade.newer != upgrade.newer_release else []
    words += ["--mode", "kraft"] if upgrade.is_kraft else []
    words += ["--controllers", str(upgrade.controllers)] if upgrade.controllers > 1 else []
    words += ["--migrate"] * upgrade.migrates
    words += ["--back-from", upgrade.back_from] * bool(upgrade.back_from)
    words += ["--back"] * upgrade.back + ["--finalize"] * upgrade.finalize
    words += ["--dynamic-quorum"] * upgrade.dynamic_quorum
    words += ["--one-roll"] * upgrade.one_roll
    words += ["--fault", upgrade.mix] if upgrade.mix else []
    words += ["--stepped"] * upgrade.stepped
    words += ["--workload", shlex.join(upgrade.workload)] if upgrade.workload else []
    words += ["--properties", upgrade.own.file] if upgrade.own else []
    words += ["--topics", upgrade.own_topics.file] if upgrade.own_topics else []
    count = len(upgrade.brokers)
    words += ["--brokers", str(count)] if count > LEAST_BROKERS else []
    words += ["--racks", str(upgrade.racks)] if upgrade.racks else []
    folders = upgrade.log_directories
    words += ["--log-directories", str(folders)] if folders > 1 else []
    words += ["--unsupported"] * bool(upgrade.why_unsupported)
    return shlex.join([*words, "--seed", seed_text(seed), "--runs", str(runs)])


def plan_lines(upgrade: Upgrade, seed: int | None) -> list[str]:
    """Lines of a plan, while nothing is run: the phases, the order of a seed, what differs."""
    texts = [*(hop_texts(upgrade) or [supported(upgrade)]), *upgrade.own_texts]
    lines = [f"upgrade from {upgrade.pair}", *(line for text in texts for line in wrapped(text))]
    orders = _orders(draw_upgrade(seed, upgrade)) if seed is not None else {}
    for number, phase in enumerate(phases(upgrade), start=1):
        order = ", ".join(map(str, orders.get(phase.name, ()))) or "any order"
        kind = "controllers" if {*phase.nodes} & {*upgrade.quorum} else "brokers"
        nodes = f"; {kind} {order}" if phase.nodes else ""
        lines.append(f"{number}. {phase.name}: {phase.title}{nodes}")
        lines += [f"     {name}={value}" for name, value in (*phase.properties, *phase.levels)]
    if seed is not None and not upgrade.is_kraft:
        first = draw_upgrade(seed, upgrade).cluster.first_broker
        lines.append(f"broker {first} is the controller at first")
    gained, missing = rules_of(upgrade)
    for heading, texts in (
        ("gained", gained),
        ("lacking", missing),
        ("by Kafka's upgrade notes", notes_of(upgrade)),
    ):
        lines += [f"{heading}:", *(line for text in texts for line in wrapped(text))] * bool(texts)
    return lines


def plan_json(upgrade: Upgrade, seed: int | None) -> str:
    """Return the plan as one JSON object, with the scenario if a seed is given."""
    gained, missing = rules_of(upgrade)
    scenario = None if seed is None else draw_upgrade(seed, upgrade).to_json()
    plan = {
        "pair": upgrade.pair,
        "unsupported": upgrade.why_unsupported,
        "phases": [
            {
                "name": phase.name,
                "title": phase.title,
                "properties": dict(phase.properties),
                "levels": dict(phase.levels),
            }
            for phase in phases(upgrade)
        ],
        "gained": gained,
        "missing": missing,
        "notes": notes_of(upgrade),
        "scenario": scenario,
    }
    return json.dumps(plan)


def _orders(scenario: Scenario) -> dict[str, list[int]]:
    """Return the order in which each phase rolls the brokers."""
    orders: dict[str, list[int]] = {}
    for step in scenario.steps:
        if isinstance(step, Inject) and isinstance(step.fault, RollBroker):
            orders.setdefault(step.name.rpartition("-")[0], []).append(step.fault.broker)
    return orders


def result_lines(result: SignOff, page: Path) -> list[str]:
    """Lines that are printed at the end."""
    answers = [f"{run.name}: {run.answer}" for run in result.runs]
    return [headline(result), *answers, f"page: {page}"]
