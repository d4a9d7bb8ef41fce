"""A summary as one HTML page that needs nothing else, as Markdown, JSON and JUnit XML."""

import json
import os
import re
import shlex
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from kchaos.checkers.occasions import OCCASIONS
from kchaos.checkers.run_line import ANSWERS, WITHOUT_SERVICE, RunLine, is_unknown
from kchaos.harness.printable import printable
from kchaos.harness.report.templates import templates
from kchaos.harness.report.whose import Advice, advice, last_words
from kchaos.harness.summary.rates import ALL_MIXES, Rate, mix_of, mode_of, release_of
from kchaos.harness.summary.summary import IS_UNKNOWN, Bug, Service, Summary

PAGE, MARKDOWN, JSON, JUNIT = "summary.html", "summary.md", "summary.json", "junit.xml"
_MOST_RUNS = 12
"""So many runs are named beside one bug; the page says how many there are."""
_MOST_PAIRS = 20
"""So many pairs of faults are in the Markdown; the page and the JSON have all."""
_RATE = (
    *("release", "mode", "mix", "runs", "safe", "unsafe", "conforming", "not_conforming"),
    *("unknown", "unsafe_between", "not_conforming_between"),
)
"""Fields of a rate in the JSON."""
_SHOWN_S = 0.05
"""Seconds below this are 0.0 for people."""
_MOST_SHOWN = 60
"""So many runs that fail, each standing for those that show the same, have a time line."""


def write_summary(summary: Summary, folder: Path) -> list[Path]:
    """Write the four files into a folder, each whole or not at all; return their paths.

    Links are relative to the folder, so that it can be moved together with its runs.

    Raises:
        OSError: The disk refuses.
    """
    given = tuple(advice(group[0].place for group in _alike(summary)))
    return write_whole(
        folder,
        {
            PAGE: html_of(summary, folder, given),
            MARKDOWN: markdown_of(summary, folder, given),
            JSON: json.dumps(json_of(summary, folder, given), indent=1) + "\n",
            JUNIT: junit_of(summary),
        },
    )


def write_whole(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    """Write files into a folder, each whole or not at all; return their paths.

    Raises:
        OSError: The disk refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        temporary = folder / f".{name}.{os.getpid()}"
        try:
            temporary.write_text(content, encoding="utf-8")
            temporary.rename(folder / name)
        finally:
            temporary.unlink(missing_ok=True)
    return [folder / name for name in contents]


def html_of(summary: Summary, folder: Path, given: Sequence[Advice] = ()) -> str:
    """Return the summary as an HTML page for this folder."""
    return _template(PAGE).render(_shown(summary, folder), advice=given)


def markdown_of(summary: Summary, folder: Path, given: Sequence[Advice] = ()) -> str:
    """Return the summary as Markdown, for a job's page or a chat."""
    return _template(MARKDOWN).render(_shown(summary, folder), advice=given).rstrip() + "\n"


def _template(name: str) -> jinja2.Template:
    return templates("kchaos.harness.summary").get_template(name)


def _shown(summary: Summary, folder: Path) -> dict[str, Any]:
    """Return the templates' variables."""
    failing = _alike(summary)
    unknown = [line for line in summary.lines if is_unknown(line) and line.unknown]
    return {
        "headline": headline(summary),
        "when": _when(summary),
        "summary": summary,
        "counts": _counts(summary),
        "bugs": [_bug(bug, folder) for bug in summary.bugs],
        "rates": [(rate, _percent(rate)) for rate in (*summary.totals, *summary.rates)],
        "all_mixes": ALL_MIXES,
        "modes": sorted({mode_of(line) for line in summary.lines}),
        "kinds_of_service": summary.measured,
        "occasions": OCCASIONS,
        "not_measured": _not_measured(summary),
        "service": [
            (service, _of_service(service, summary, folder)) for service in summary.service
        ],
        "failing": [
            (_run(group[0], summary, folder), len(group)) for group in failing[:_MOST_SHOWN]
        ],
        "failing_left_out": max(0, len(failing) - _MOST_SHOWN),
        "unknown": unknown[:_MOST_SHOWN],
        "runs": [_run(line, summary, folder) for line in summary.lines],
        "gates": [
            (seconds, name, _run(line, summary, folder)) for seconds, name, line in summary.gates
        ],
        "most_pairs": _MOST_PAIRS,
    }


def json_of(summary: Summary, folder: Path, given: Sequence[Advice] = ()) -> dict[str, Any]:
    """Return the summary as plain JSON values; its `lines` can be a later night's baseline."""
    return {
        "headline": headline(summary),
        "answer": summary.answer,
        "fail_on": list(summary.fail_on),
        "baseline": summary.baseline,
        "warnings": list(summary.warnings),
        "counts": _counts(summary),
        "bugs": [
            {
                "status": bug.status or None,
                "history": bug.history or None,
                "fingerprint": bug.fingerprint,
                "release": bug.release,
                "kind": bug.kind,
                "question": bug.question,
                "message": bug.message,
                "runs": [line.run for line in bug.runs],
            }
            for bug in summary.bugs
        ],
        "advice": [asdict(each) for each in given],
        "rates": [{name: getattr(rate, name) for name in _RATE} for rate in summary.rates],
        "totals": [{name: getattr(rate, name) for name in _RATE} for rate in summary.totals],
        "service": [_service_json(service) for service in summary.service],
        "gates": [
            {"seconds": seconds, "gate": name, "run": line.run}
            for seconds, name, line in summary.gates
        ],
        "exercised": {
            "faults": [
                {"kind": kind, "runs": runs, "times": times}
                for kind, (runs, times) in summary.exercised.faults.items()
            ],
            "pairs": [
                {"kinds": list(kinds), "runs": runs}
                for kinds, runs in summary.exercised.pairs.items()
            ],
            "pairs_that_never_met": summary.exercised.unmet,
            "occasions": [
                {"kind": kind, "runs": runs, "times": times}
                for kind, (runs, times) in summary.exercised.occasions.items()
            ],
            "points": dict(summary.exercised.points),
            "rules": [
                {"rule": rule, "decided_in": asked, "in_force_in": known}
                for rule, (asked, known) in summary.exercised.rules.items()
            ],
        },
        "lines": [
            line.to_json() | {"fails": summary.why_failing(line), "link": _link(line, folder)}
            for line in summary.lines
        ],
    }


def junit_of(summary: Summary) -> str:
    """Return the summary as JUnit XML: a case for each run, failed runs with failure or error.

    A case is named after its seed alone, so that the same seed of another night is the same case. A
    failed run whose directory is there has whose it is, the next commands and its report.
    """
    root = ET.Element("testsuites", name="kchaos")
    suites: dict[str, ET.Element] = {}
    named = Counter[tuple[str, str]]()
    for line in summary.lines:
        release = release_of(line)
        of_class = _xml(f"{release} {mix_of(line)}".strip())
        name = line.run if line.seed is None else f"seed {line.seed}"
        named[of_class, name] += 1
        again = f" ({named[of_class, name]})" if named[of_class, name] > 1 else ""
        if release not in suites:
            suites[release] = ET.SubElement(root, "testsuite", name=_xml(release))
        case = ET.SubElement(
            suites[release],
            "testcase",
            classname=of_class,
            name=_xml(name + again),
            time=str(line.seconds or 0),
        )
        if why := summary.why_failing(line):
            _add_failure(case, line, why)
    for suite in suites.values():
        suite.set("tests", str(len(suite)))
        for name in ("failure", "error"):
            suite.set(f"{name}s", str(len(suite.findall(f"testcase/{name}"))))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add_failure(case: ET.Element, line: RunLine, why: list[str]) -> None:
    messages = [finding.message for finding in line.bugs]
    details = [*messages, *filter(None, [line.reason, line.unknown])]
    tag, kind = "failure", line.bugs[0].kind if line.bugs else why[0]
    if why == [IS_UNKNOWN]:
        tag, kind, messages = "error", IS_UNKNOWN, [str(line.unknown)]
    message = _xml(messages[0] if messages else ", ".join(why))
    ET.SubElement(case, tag, type=kind, message=message).text = _xml("\n".join(details))
    words = [f"run: {line.run}", *last_words([line.place])]
    if len(words) == 1 and line.place is not None:
        words.append(f"next: kchaos replay {shlex.quote(line.place)}")
    if line.place is not None and line.report is not None:
        words.append(f"[[ATTACHMENT|{(Path(line.place) / line.report).resolve()}]]")
    ET.SubElement(case, "system-out").text = _xml("\n".join(words))


def headline(summary: Summary) -> str:
    """Return the most important sentence, in a few words."""
    counts = _counts(summary)
    counted = [f"{counts[name]} {name}" for name in ("unsafe", "not conforming", "unknown")]
    counted = [words for words in counted if not words.startswith("0 ")]
    runs = "1 run" if len(summary.lines) == 1 else f"{len(summary.lines)} runs"
    predicted = [line for line in summary.lines if line.conforms is not None]
    unpredicted = len(summary.lines) - len(predicted)
    new = ""
    if summary.baseline is not None:
        new = f"{counts['new']} new {'bug' if counts['new'] == 1 else 'bugs'}"
    if counted:
        return f"{runs}: {', '.join(filter(None, [new, *counted]))}"
    new = f"; {new}" if new else ""
    if not unpredicted:
        return f"{runs}: all conform and are safe{new}"
    conform = f"{len(predicted)} conform, and " if predicted else ""
    unlinked = f"{unpredicted} with KRaft and without links are not predicted"
    return f"{runs}: all are safe; {conform}{unlinked}{new}"


def _alike(summary: Summary) -> list[list[RunLine]]:
    """Return the failed runs, grouped by what they show."""
    groups: dict[tuple[Any, ...], list[RunLine]] = {}
    for line in summary.failing:
        shown = tuple(sorted(finding.fingerprint for finding in line.bugs))
        why = re.sub("[0-9]+", "N", str(line.unknown))
        groups.setdefault((line.release, shown, why), []).append(line)
    return list(groups.values())


def _counts(summary: Summary) -> dict[str, int]:
    lines = summary.lines
    return {
        "new": len(summary.new),
        "unsafe": sum(line.safe is False for line in lines),
        "not conforming": sum(line.conforms is False for line in lines),
        "unknown": sum(is_unknown(line) for line in lines),
        "failing": len(summary.failing),
    }


def _when(summary: Summary) -> str:
    times = [line.started_at for line in summary.lines if line.started_at]
    if not times:
        return "When the runs began is not known."
    ends = min(times), max(times)
    first, last = (time.strftime("%Y-%m-%d %H:%M", time.gmtime(when)) for when in ends)
    beside = f", beside {summary.baseline}" if summary.baseline is not None else ""
    return f"Begun between {first} and {last} UTC{beside}."


def _bug(bug: Bug, folder: Path) -> dict[str, Any]:
    runs = [(line.run, _link(line, folder)) for line in bug.runs[:_MOST_RUNS]]
    rows = {
        name: getattr(bug, name) for name in ("status", "history", "release", "kind", "question")
    }
    return rows | {
        "fingerprint": bug.fingerprint,
        "message": bug.message,
        "runs": runs,
        "count": len(bug.runs),
        "left_out": max(0, len(bug.runs) - _MOST_RUNS),
    }


def _run(line: RunLine, summary: Summary, folder: Path) -> dict[str, Any]:
    return {
        "name": line.run,
        "link": _link(line, folder),
        "release": release_of(line),
        "mode": mode_of(line),
        "mix": mix_of(line),
        "seed": line.seed,
        "safe": ANSWERS[line.safe],
        "conforms": ANSWERS[line.conforms],
        "seconds": line.seconds,
        "service": [line.service[name] for name in summary.measured],
        "why": summary.why_failing(line),
        "kinds": ", ".join(dict.fromkeys(finding.kind for finding in line.bugs)),
        "unknown": line.unknown,
        "faults": [
            {"name": name, "left": 100 * begin, "width": max(0.6, 100 * (end - begin))}
            for name, begin, end in line.faults
        ],
    }


def _of_service(
    service: Service, summary: Summary, folder: Path
) -> list[tuple[str, tuple[str, str, str | None] | None]]:
    """Return each kind's row: words, and the most seconds with their run and its report.

    What is 0.0 for people has no run.
    """
    rows: list[tuple[str, tuple[str, str, str | None] | None]] = []
    for name in summary.measured:
        seconds = service.seconds[name]
        if seconds is None:
            rows.append(("not measured", None))
            continue
        words = f"{'' if service.runs == 1 else 'median '}{seconds.median_s:.1f}"
        if seconds.runs < service.runs:
            words += f" ({seconds.runs} of {service.runs} runs)"
        if seconds.longest_s < _SHOWN_S:
            rows.append((words, None))
            continue
        run = seconds.longest_run
        most = f"{seconds.longest_s:.1f}", run.run, _link(run, folder)
        rows.append(("" if service.runs == 1 else words, most))
    return rows


def _not_measured(summary: Summary) -> str:
    """Return a sentence with the kinds that no run has measured, or ""."""
    missing = [words for name, words in WITHOUT_SERVICE.items() if name not in summary.measured]
    return f"No run has measured: {', '.join(missing)}." if missing else ""


def _service_json(service: Service) -> dict[str, Any]:
    rows = {name: getattr(service, name) for name in ("release", "mode", "mix", "runs")}
    return rows | {
        name: None
        if seconds is None
        else {
            "runs": seconds.runs,
            "median": seconds.median_s,
            "longest": seconds.longest_s,
            "longest_run": seconds.longest_run.run,
        }
        for name, seconds in service.seconds.items()
    }


def _link(line: RunLine, folder: Path) -> str | None:
    """Where the run's report is, as seen from the folder; None where there is none any more."""
    if not line.place or not line.report:
        return None
    return quote(os.path.relpath(Path(line.place) / line.report, folder.resolve()))


def _percent(rate: Rate) -> tuple[str, str]:
    """Return both intervals of a rate for people, such as " (0-9 %)"."""
    between = rate.unsafe_between, rate.not_conforming_between
    unsafe, unlike = (
        "" if interval is None else f" ({_whole(interval)} %)" for interval in between
    )
    return unsafe, unlike


def _whole(between: tuple[float, float]) -> str:
    low, high = (100 * end for end in between)
    return f"{low:.0f}-{high:.0f}" if high >= 10 else f"{low:.1f}-{high:.1f}"


def _xml(text: str) -> str:
    """Return the text without characters that XML cannot have."""
    return printable(text)
