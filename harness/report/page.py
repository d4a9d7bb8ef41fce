"""The report as one HTML page that needs nothing else: no network, no script to be read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckError
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.errors import HarnessError
from kchaos.harness.report import answers
from kchaos.harness.report.broker_states import story_names
from kchaos.harness.report.cause.causes import cause_of
from kchaos.harness.report.cause.story import worst_of
from kchaos.harness.report.cause.unavoidable import no_way_back
from kchaos.harness.report.control import control_rows, most_of
from kchaos.harness.report.finding_views import finding_views, in_order
from kchaos.harness.report.lane_drawing import draw_partition
from kchaos.harness.report.leadership import Decisions, decisions_of, incarnations
from kchaos.harness.report.loading import Loaded, load
from kchaos.harness.report.moments import Moment, faults_of, moments, story_of, writes_of
from kchaos.harness.report.paper import Paper
from kchaos.harness.report.replicas import PartitionView, partition_views
from kchaos.harness.report.rounds import observed_rounds, predicted_rounds, side_by_side
from kchaos.harness.report.scrubbing import scrubbed
from kchaos.harness.report.sections import sections_of
from kchaos.harness.report.service import not_measured, service_tables
from kchaos.harness.report.templates import templates
from kchaos.harness.report.text import damaged_text
from kchaos.harness.report.tier_drawing import drawn_readings
from kchaos.harness.report.time_drawing import draw_time
from kchaos.harness.report.whose import lead_of, next_commands

MOST_FINDINGS = 300
MOST_MOMENTS = 600
MOST_PARTITIONS = 60
MOST_REQUESTS = 600
MOST_TOLD = 8
"""More than this of a kind is cut short on the page, which says how many were left out."""


def render(run: RunDirectory, judgement: str | None = None) -> str:
    """Return the report of a run as HTML, with the named judgement or its newest one.

    It shows what the judgement says and what the files hold; it decides nothing itself. A run that
    is not sealed, or that nobody has judged, is shown as far as it goes, and the page says so.

    Raises:
        UsageError: The run has no judgement of that name.
        CheckError: The judgement, or what was run, cannot be read.
    """
    loaded = load(run, judgement)
    try:
        return _template("report.html").render(_context(loaded))
    except CheckError as error:
        text = damaged_text(loaded, error, Paper(80, colour=False))
        return _template("damaged.html").render(
            name=loaded.name,
            headline="its evidence cannot be read",
            outcome=answers.outcome_of(loaded),
            text=text,
        )


@cache
def _template(name: str) -> jinja2.Template:
    return templates().get_template(name)


def _context(loaded: Loaded) -> dict[str, Any]:
    views = partition_views(loaded)
    rounds = observed_rounds(loaded)
    decisions = decisions_of(loaded)
    faults, writes = faults_of(loaded), writes_of(loaded)
    cause = cause_of(loaded, views=views, decisions=decisions, rounds=rounds, faults=faults)
    names = story_names(loaded)
    happened = moments(loaded, decisions=decisions, faults=faults, writes=writes, rounds=rounds)
    partition = _drawn_partition(loaded, decisions)
    time = draw_time(
        loaded,
        partition=partition,
        moments=happened,
        faults=faults,
        writes=writes,
        decisions=decisions,
        rounds=rounds,
        cause=cause,
        names=names,
    )
    return {
        **_verdict(loaded, views),
        "cause": cause,
        "no_way_back": no_way_back(loaded),
        "names": names,
        **_drawn(loaded, views),
        **_caches(views),
        "time": time,
        "scrubbed": scrubbed(loaded, decisions, time.axis, partition),
        **_moments(happened),
        "fault_names": list(dict.fromkeys(fault.name for fault in faults)),
        "writes": writes,
        "zero": loaded.started_at,
        **_decisions(loaded, decisions),
        **_control(loaded),
        "service": service_tables(loaded),
        "not_measured": not_measured(loaded),
        "sections": (*sections_of(loaded),),
        "rounds": side_by_side(predicted_rounds(loaded), rounds),
        "has_prediction": loaded.prediction is not None,
        "truncations": loaded.prediction.truncations if loaded.prediction else (),
        "versions": _versions(loaded),
        "brokers": _brokers(loaded),
        "command": loaded.run.command,
        "next_commands": next_commands(loaded),
    }


def _verdict(loaded: Loaded, views: Sequence[PartitionView]) -> dict[str, Any]:
    """Return the judgement, with the expectation and the findings."""
    story = story_of(loaded)
    return {
        "name": loaded.evidence.name,
        "judgement": loaded.judgement,
        "title": answers.title_of(loaded),
        "tickets": answers.tickets_of(loaded),
        "outcome": answers.outcome_of(loaded),
        "headline": answers.headline(loaded),
        "lead": lead_of(loaded),
        "summary": answers.summary(loaded),
        "story": [_sentence(line) for line in story] if len(story) <= MOST_TOLD else [],
        "answers": answers.answers_of(loaded),
        "warnings": answers.warnings(loaded),
        "not_compared": answers.not_compared(loaded),
        "occasions": answers.occasions_of(loaded),
        "unknown_reasons": answers.unknown_reasons(loaded),
        "tracebacks": answers.tracebacks(loaded),
        "expectation": answers.expectation_of(loaded),
        "witnesses": answers.witnesses_of(loaded),
        "findings": finding_views(in_order(loaded.findings)[:MOST_FINDINGS], views),
        "held": answers.held(loaded),
        "findings_left_out": max(0, len(loaded.findings) - MOST_FINDINGS),
    }


def _caches(views: Sequence[PartitionView]) -> dict[str, Any]:
    caches = [_cache(view) for view in views[:MOST_PARTITIONS]]
    return {
        "caches": caches,
        "has_caches": any(
            replica["is_found"] or replica["rows"]
            for each in caches
            for replica in each["replicas"]
        ),
    }


def _moments(happened: Sequence[Moment]) -> dict[str, Any]:
    return {
        "moments": _shortened(happened),
        "chapters": [moment for moment in happened if moment.kind == "story"],
        "moments_left_out": max(0, len(happened) - MOST_MOMENTS),
        "most_rows": MOST_MOMENTS,
    }


def _decisions(loaded: Loaded, decisions: Decisions) -> dict[str, Any]:
    """Return leaders and registrations over time, and decisions that no controller could take."""
    return {
        "states": decisions.states,
        "decisions": decisions,
        "decision_problems": decisions.problems,
        "incarnations": incarnations(loaded, decisions),
        "disallowed": [
            json.dumps(asdict(each))
            for each in (loaded.prediction.disallowed if loaded.prediction else ())
        ],
    }


def _drawn_partition(loaded: Loaded, decisions: Decisions) -> TopicPartition | None:
    """Return the worst finding's partition, else the first one that had a leader."""
    worst = worst_of(loaded)
    if worst is not None and worst.topic:
        return TopicPartition(worst.topic, worst.partition)
    led = (TopicPartition(state.topic, state.partition) for _, state in decisions.states)
    return next(led, None)


def _drawn(loaded: Loaded, views: Sequence[PartitionView]) -> dict[str, Any]:
    readings, problem = drawn_readings(loaded.evidence)
    return {
        "partitions": [draw_partition(view, loaded.findings) for view in views[:MOST_PARTITIONS]],
        "partitions_left_out": max(0, len(views) - MOST_PARTITIONS),
        "readings": readings,
        "readings_problem": problem,
    }


def _control(loaded: Loaded) -> dict[str, Any]:
    rows = control_rows(loaded)
    left_out = max(0, len(rows) - MOST_REQUESTS)
    return {"control": most_of(rows, MOST_REQUESTS), "control_left_out": left_out}


def _sentence(line: str) -> str:
    """Return the line as a sentence, keeping a name at its begin such as an operation's."""
    word = line.split(" ", 1)[0]
    begun = (
        line[:1].upper() + line[1:] if word == "a" or (word.isalpha() and len(word) > 2) else line
    )
    return begun if line[-1:] in (".", "!", "?") else f"{begun}."


def _shortened(happened: Sequence[Moment]) -> Sequence[Moment]:
    if len(happened) <= MOST_MOMENTS:
        return happened
    half = MOST_MOMENTS // 2
    return (*happened[:half], *happened[-half:])


def _cache(view: PartitionView) -> dict[str, Any]:
    """Return each replica's leader-epoch-checkpoint: one row per epoch and start offset."""
    replicas = []
    for replica in view.replicas:
        foreseen = replica.foreseen.epoch_entries if replica.foreseen else None
        disk_entries = replica.on_disk.epoch_entries if replica.on_disk else None
        entries = sorted({*(foreseen or ()), *(disk_entries or ())})
        rows = [
            (entry, foreseen is not None and entry in foreseen, entry in (disk_entries or ()))
            for entry in entries
        ]
        replicas.append(
            {
                "broker": replica.broker,
                "rows": rows,
                "is_predicted": foreseen is not None,
                "is_found": disk_entries is not None,
            }
        )
    return {"name": view.name, "snapshot": view.snapshot, "replicas": replicas}


def _versions(loaded: Loaded) -> list[tuple[str, str]]:
    run = loaded.run
    names = ("driver", "engine", "images", "seed", "kchaos", "python", "platform")
    values = [(name, getattr(run, name)) for name in names]
    return [(name, str(value)) for name, value in values if value not in (None, "")]


def _brokers(loaded: Loaded) -> list[Mapping[str, str]]:
    generations = {} if loaded.prediction is None else loaded.prediction.generations
    return [
        {
            "id": str(broker),
            "release": each.name,
            "judged_as": each.judged_as,
            "generation": generations.get(broker, ""),
        }
        for broker, each in sorted(loaded.run.brokers.items())
    ]


def write_report(run: RunDirectory) -> Path:
    """Write the newest judgement's page, and return its path: `report.html`.

    The page is no evidence: it is in no manifest, and a newer one takes its place.

    Raises:
        HarnessError: The file cannot be written.
        RunDirectoryError: A file of the run cannot be read.
    """
    judgements = run.judgements()
    text = render(run, judgements[-1] if judgements else None)
    try:
        return run.write_report(text)
    except OSError as error:
        raise HarnessError(
            f"the report cannot be written to {run.path}: {error}; "
            "make it writable, or report on a copy of the run directory"
        ) from error
