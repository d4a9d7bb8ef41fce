"""Result lines of played schedules: the result, why it is unknown, and how long it waited."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kchaos.checkers.findings import KINDS, Question
from kchaos.checkers.results import LINE_FIELDS, is_unknown
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.run.scenario import Scenario

Line = Mapping[str, Any]
_REASON = 100


def line_of_run(line: Line) -> dict[str, Any]:
    """The object of `--json` for a run, with what its directory tells beside it.

    Added are `steps` (of the schedule, gates included), `unknown`, `reason` and `signs` of the
    newest judgement, `waited_s` and `not_possible`.

    Raises:
        RunDirectoryError: The run cannot be read, or was not judged.
    """
    run = RunDirectory.open(Path(str(line["run"])))
    judged = run.read(f"judgements/{run.judgements()[-1]}/results.json")
    steps = run.read("scenario.json")["steps"]
    seen = tuple(run.read_lines("observations.jsonl"))
    return {
        **line,
        "steps": len(steps),
        "unknown": judged["unknown"],
        "reason": judged["reason"],
        "signs": signs_of(judged),
        "waited_s": run.read("outcome.json").get("waited_s", 0.0),
        "not_possible": sum(observation["kind"] == "not-possible" for observation in seen),
    }


def line_without_result(scenario: Scenario, why: str) -> dict[str, Any]:
    """The line of a play that ended without a result: it is unknown, and nothing was measured.

    It has the fields of `line_of_run`. No step counts as played or skipped.
    """
    line: dict[str, Any] = dict.fromkeys((*LINE_FIELDS, "report", "waited_s"))
    line |= {"entry": scenario.entry, "case": scenario.case, "release": scenario.release}
    line |= {"seed": scenario.seed, "expected": False, "unknown": why, "run": ""}
    return line | {"findings": [], "signs": [], "steps": 0, "not_possible": 0}


def signs_of(judged: Mapping[str, Any]) -> list[str]:
    """Signs of a defect in a run, without the numbers in which two runs may differ.

    The kinds of its findings: those about conformance if it does not conform, else those about
    safety if it is not safe. Of an unknown run the reason. A run that conforms and is safe shows
    nothing.

    Args:
        judged: The content of results.json.
    """
    if is_unknown(judged):
        return [f"unknown: {re.sub('[0-9]+', 'N', str(judged['unknown']))[:_REASON]}"]
    question = Question.CONFORMANCE if judged["conforms"] is False else Question.SAFETY
    return sorted(
        {
            "/".join([finding["kind"], *([what] if what else [])])
            for finding in judged["findings"]
            if KINDS[finding["kind"]].question is question
            for what in [(finding.get("evidence") or {}).get("what")]
        }
    )
