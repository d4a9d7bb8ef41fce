"""The sign-off of an upgrade as one HTML page that needs nothing else, as Markdown and as JSON."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import jinja2

from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import FIRST_CONTROLLER
from kchaos.harness.report.templates import templates
from kchaos.harness.summary.rendering import write_whole
from kchaos.harness.upgrades.notes import LEVELS
from kchaos.harness.upgrades.pairs import OF_4, documented, led_from
from kchaos.harness.upgrades.procedure import RATE, Upgrade, settings_of
from kchaos.harness.upgrades.sign_off import (
    GREEN,
    RED,
    SAFE,
    UNKNOWN,
    BrokerAt,
    PhaseOfRun,
    RunOfUpgrade,
    SignOff,
)

PAGE, MARKDOWN, JSON = "sign-off.html", "sign-off.md", "sign-off.json"
NOT_MEASURED = "not measured"
_SYMBOLS = {GREEN: "✓", SAFE: "◐", RED: "✗", UNKNOWN: "?"}
_STAGES = {"migration": "migration mode", "kraft": "KRaft"}
_YES = {True: "yes", False: "no", None: "unknown"}


def write_sign_off(result: SignOff, folder: Path) -> list[Path]:
    """Write the three files into a folder, each whole or not at all; return their paths.

    Raises:
        OSError: The disk refuses.
    """
    return write_whole(
        folder,
        {
            PAGE: html_of(result, folder),
            MARKDOWN: markdown_of(result, folder),
            JSON: json.dumps(json_of(result), indent=1) + "\n",
        },
    )


def headline(result: SignOff) -> str:
    """Return the two releases and the answer."""
    return f"Kafka {result.upgrade.pair}{_unusual(result)}: {result.answer}"


def html_of(result: SignOff, folder: Path) -> str:
    """Return the sign-off as an HTML page for this folder."""
    return _template("sign_off.html").render(_shown(result, folder))


def markdown_of(result: SignOff, folder: Path) -> str:
    """Return the sign-off as Markdown, for a change request or a chat."""
    return _template("sign_off.md").render(_shown(result, folder)).rstrip() + "\n"


def _template(name: str) -> jinja2.Template:
    return templates("kchaos.harness.upgrades").get_template(name)


def _shown(result: SignOff, folder: Path) -> dict[str, Any]:
    """Return the templates' variables."""
    phases = phase_rows(result)
    return {
        "result": result,
        "headline": headline(result),
        "symbol": _SYMBOLS[result.answer],
        "reason": reason(result),
        "supported": supported(result.upgrade),
        "clients": clients(result),
        "seconds": _seconds,
        "phases": phases,
        "procedure": result.procedure,
        "not_covered": not_covered(result),
        "settings": sorted(settings_of(result.upgrade).items()),
        "levels": levels_before_and_after(result),
        "meanings": LEVELS,
        "findings": _findings(result),
        "runs": [
            _run(run, folder)
            for run in sorted(
                result.runs, key=lambda run: (RED, UNKNOWN, SAFE, GREEN).index(run.answer)
            )
        ],
        "sees_writes": any(row["without_write_s"] is not None for row in phases),
        "symbols": _SYMBOLS,
        "yes": _YES,
        "red": RED,
    }


def reason(result: SignOff) -> str:
    """Return the reason for the answer, in one sentence."""
    runs = len(result.runs)
    of = "the one run" if runs == 1 else f"all {runs} runs"
    if not runs:
        return "There is no run."
    if result.answer == GREEN:
        return (
            f"In {of} every broker was rolled in each phase, replicas agree and every promised "
            f"record is there. All went as the model of these releases predicts. {bound_text(runs)}"
        )
    if result.answer == SAFE:
        why = next(run.not_judged for run in result.runs if run.not_judged)
        return (
            f"In {of} every broker was rolled in each phase, replicas agree and every promised "
            f"record is there. This answer stands on safety alone: conformance is unknown, since "
            f"{why}. {bound_text(runs)}"
        )
    if result.answer == UNKNOWN:
        missing = result.wanted - runs
        why = next((run.why for run in result.runs if run.answer == UNKNOWN), "")
        words = [f"{_counted(result, UNKNOWN)} unknown"] * bool(result.count(UNKNOWN))
        words += [f"{missing} of {result.wanted} runs are missing"] * (missing > 0)
        return f"{', and '.join(words)}, so nobody can say{f': {why}' if why else ''}."
    kinds = sorted(
        {finding.kind for run in result.runs if run.answer == RED for finding in run.findings}
    )
    return f"{_counted(result, RED)} red, by {', '.join(kinds) or 'what the model predicts'}."


def bound_text(runs: int) -> str:
    """Return the share of upgrades that may go wrong although so many runs were green.

    With a share p of wrong ones all are green with probability (1-p)^runs; at the bound it is 5 %.
    """
    bound = 1 - 0.05 ** (1 / runs)
    return f"At most {100 * bound:.0f} % of such upgrades go wrong (with 95 % confidence)."


def not_covered(result: SignOff) -> list[str]:
    """Return what no run shows, in sentences."""
    upgrade = result.upgrade
    texts = [
        f"Other sizes: {len(upgrade.brokers)} brokers, topics "
        f"{', '.join(topic.topic for topic in upgrade.topics)}, and {RATE:g} records a second.",
        "Settings other than those below.",
        "Upgrades of clients.",
        *["Racks (--racks)."] * (not upgrade.racks),
        *["Several log directories of a broker (--log-directories)."]
        * (upgrade.log_directories == 1),
        *upgrade.own_texts,
    ]
    if not upgrade.workload:
        texts.append("Transactions, consumer groups and share groups (--workload has its own).")
    if not upgrade.mix:
        texts.append("Faults beside the rolls (--fault).")
    if upgrade.migrates:
        texts.append("What the model predicts (conformance).")
        texts.append("ACLs, quotas, SCRAM users and delegation tokens, which are migrated as well.")
    elif not upgrade.is_kraft:
        texts.append("The upgrade of ZooKeeper itself.")
    else:
        texts += ["A quorum that becomes dynamic (--dynamic-quorum)."] * (
            not upgrade.dynamic_quorum
        )
        texts.append("Clusters whose quorum is dynamic, and controllers that are brokers as well.")
        texts += ["A controller that fails (--controllers 3)."] * (upgrade.controllers == 1)
    return texts


def levels_before_and_after(result: SignOff) -> list[tuple[str, int, int]]:
    """Return each feature with its level before and after an upgrade with KRaft."""
    last = result.upgrade.hops[-1]
    if not last.is_kraft:
        return []
    older = release_of(last.older_release).feature_levels
    rolls = [roll for run in result.runs[-1:] for phase in run.phases for roll in phase.rolls]
    seen = rolls[-1].levels if rolls else {}
    return [
        (name, older.get(name, 0), seen.get(name, older.get(name, 0)))
        for name in sorted({*older, *seen})
    ]


def _counted(result: SignOff, answer: str) -> str:
    """Return the number of runs with an answer, with the verb."""
    count, runs = result.count(answer), len(result.runs)
    if runs == 1:
        return "The one run is"
    return f"{count} of {runs} runs {'is' if count == 1 else 'are'}"


def supported(upgrade: Upgrade) -> str:
    """Return whether Kafka supports it, with the source."""
    if upgrade.via:
        return " ".join(hop_texts(upgrade))
    if why := upgrade.why_unsupported:
        return f"Kafka does not support this: {why}."
    older, newer = release_of(upgrade.older_release), release_of(upgrade.newer_release)
    if upgrade.migrates:
        return f"Kafka documents it: {documented(older)}."
    if older.line == newer.line:
        return "Both are of one release line."
    texts = [f"Kafka supports it: {led_from(newer, upgrade.mode)}."] * (older < newer)
    if upgrade.lowers_levels:
        texts.append(
            "Kafka lowers these levels: no metadata version in between has metadata changes "
            f"(MetadataVersion.didMetadataChange of Kafka 4.4.0; {OF_4}). Older binaries may then "
            "start once each node has a snapshot of the lower level (KIP-778). The change makes "
            "none (SnapshotGenerator up to 4.4.0): it comes within "
            "metadata.log.max.snapshot.interval.ms, 1 hour by default."
        )
    return " ".join(texts)


def hop_texts(upgrade: Upgrade) -> list[str]:
    """Return a sentence for each hop, with its source; none where there is one hop."""
    hops = upgrade.hops if upgrade.via else ()
    return [f"Hop {n}, {hop.pair}: {supported(hop)}" for n, hop in enumerate(hops, start=1)]


def clients(result: SignOff) -> str:
    """Work of the clients meanwhile, in one sentence."""
    if result.upgrade.stepped:
        return "Clients wrote between the rolls alone (--stepped)."
    return (
        f"Clients wrote {RATE:g} records a second, and read, without a pause from before the first "
        "roll until after the last."
    )


def _unusual(result: SignOff) -> str:
    upgrade = result.upgrade
    back = ", finalized" * upgrade.finalize + ", and back" * upgrade.goes_back
    return back + ", in one roll" * upgrade.one_roll


def phase_rows(result: SignOff) -> list[dict[str, Any]]:
    """Return each phase over all runs, in the order of the first run that has the most of them."""
    longest = max(result.runs, key=lambda run: len(run.phases), default=None)
    rows = []
    for first in longest.phases if longest is not None else ():
        same = [phase for run in result.runs for phase in run.phases if phase.name == first.name]
        rows.append(
            {
                "name": first.name,
                "title": first.title,
                "runs": len(same),
                "seconds": median(phase.ended - phase.began for phase in same),
                "promised": sum(phase.promised for phase in same),
                "refused": sum(phase.refused for phase in same),
                "leader_moves": sum(phase.leader_moves for phase in same),
                "without_leader_s": _sum(phase.without_leader_s for phase in same),
                "without_write_s": _sum(phase.without_write_s for phase in same),
                "generations": sum(
                    len(each) for phase in same for each in phase.generations.values()
                ),
                "faults": sum(len(phase.faults) for phase in same),
                "not_possible": sum(phase.not_possible for phase in same),
            }
        )
    return rows


def _sum(seconds: Iterable[float | None]) -> float | None:
    """Return the sum of all seconds, or None if any is unknown."""
    known = [*seconds]
    return None if None in known else round(sum(filter(None, known)), 3)


def _seconds(seconds: float | None) -> str:
    return NOT_MEASURED if seconds is None else f"{seconds:.1f} s"


def json_of(result: SignOff) -> dict[str, Any]:
    """Return the sign-off as plain JSON values."""
    return {
        "headline": headline(result),
        "answer": result.answer,
        "reason": reason(result),
        "supported": not result.upgrade.why_unsupported,
        "support": supported(result.upgrade),
        "clients": clients(result),
        "not_covered": not_covered(result),
        "settings": dict(settings_of(result.upgrade)),
        "levels": [list(row) for row in levels_before_and_after(result)],
        "upgrade": asdict(result.upgrade),
        "digests": dict(result.digests),
        "command": result.command,
        "procedure": [asdict(phase) for phase in result.procedure],
        "phases": phase_rows(result),
        "findings": _findings(result),
        "runs": [_run_json(run) for run in result.runs],
        "gained": list(result.gained),
        "missing": list(result.missing),
        "notes": list(result.notes),
    }


def _run_json(run: RunOfUpgrade) -> dict[str, Any]:
    return {
        "name": run.name,
        "answer": run.answer,
        "seed": run.seed,
        "conforms": run.conforms,
        "safe": run.safe,
        "unknown": run.unknown,
        "promised": run.promised,
        "kept": run.kept,
        "lost": run.lost,
        "seconds": run.seconds,
        "stood_still": run.stood_still,
        "replay": run.replay,
        "cause": list(run.cause),
        "availability": asdict(run.availability),
        "phases": [asdict(phase) for phase in run.phases],
        "findings": [finding.fingerprint for finding in run.findings],
    }


def _findings(result: SignOff) -> list[dict[str, Any]]:
    """Return each fingerprint once, with its number of runs."""
    findings = [
        (finding.fingerprint, finding.kind, finding.question.value, finding.message, run.name)
        for run in result.runs
        for finding in run.findings
    ]
    rows = []
    for (fingerprint, kind), same in groupby(sorted(findings), key=lambda row: row[:2]):
        each = list(same)
        rows.append(
            {
                "fingerprint": fingerprint,
                "kind": kind,
                "question": each[0][2],
                "message": each[0][3],
                "count": len({row[4] for row in each}),
                "runs": sorted({row[4] for row in each}),
            }
        )
    return rows


def _run(run: RunOfUpgrade, folder: Path) -> dict[str, Any]:
    link = None
    if run.report is not None:
        link = quote(os.path.relpath(run.report.resolve(), folder.resolve()))
    ids = sorted(
        {broker for phase in run.phases for roll in phase.rolls for broker in roll.brokers}
    )
    return {
        "run": run,
        "link": link,
        "kept": "unknown" if run.kept is None else run.kept,
        "promises": f"{run.promised} records were promised; how many are kept is unknown"
        if run.kept is None
        else f"of {run.promised} promised records {run.kept} are kept",
        "brokers": ids,
        "rows": [row for phase in run.phases for row in _rows(phase, ids)],
    }


def _rows(phase: PhaseOfRun, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row for the phase, and one for each of its rolls."""
    more = f"; {len(phase.faults)} faults: {', '.join(phase.faults)}" if phase.faults else ""
    rows: list[dict[str, Any]] = [
        {
            "at": phase.began,
            "is_phase": True,
            "what": f"{phase.name}: {phase.title}",
            "note": f"{phase.promised} promised, {phase.refused} refused, "
            f"{phase.leader_moves} leader moves{more}",
            "cells": [],
        }
    ]
    before: Mapping[str, int] = {}
    for roll in phase.rolls:
        office = ", the controller" if roll.was_controller else ""
        rows.append(
            {
                "at": roll.began,
                "is_phase": False,
                "what": "feature level"
                if roll.broker is None
                else f"{'broker' if roll.broker < FIRST_CONTROLLER else 'controller'} "
                f"{roll.broker}{office}",
                "note": f"{roll.ended - roll.began:.1f} s{_levels_text(before, roll.levels)}",
                "cells": [
                    (_cell_of(roll.brokers, broker), broker == roll.broker) for broker in ids
                ],
            }
        )
        before = roll.levels
    return rows


def _levels_text(before: Mapping[str, int], levels: Mapping[str, int]) -> str:
    """Return the feature levels that a phase's row before did not have."""
    other = [f"{name} {level}" for name, level in levels.items() if before.get(name) != level]
    return f"; {', '.join(other)}" if other else ""


def _cell_of(brokers: Mapping[int, BrokerAt], broker: int) -> list[str]:
    """Return the cell of a broker after a roll: release, protocol, format, generation."""
    at = brokers.get(broker)
    if at is None:
        return ["-"]
    result = [at.release, *([f"protocol {at.protocol}"] if at.protocol else [])]
    result += [_STAGES[at.stage]] if at.stage in _STAGES else []
    result += [f"format {at.message_format}"] if at.message_format else []
    name = "czxid" if at.protocol else "broker epoch"
    return result + ([f"{name} {at.czxid}"] if at.czxid is not None else [])
