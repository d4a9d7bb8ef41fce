"""What is kept of one played schedule: its result, why it is unknown, and how long it waited."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.findings import KINDS, Question
from checkers.run_directory import RunDirectory

Line = Mapping[str, Any]
_BEGINS = ("injected", "healed")
_ENDS = ("step", "act", *_BEGINS, "settled")
_GATES = "Await"
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
        "waited_s": waited_s(seen, [name_of(step) for step in steps]),
        "not_possible": sum(one["kind"] == "not-possible" for one in seen),
    }


def signs_of(judged: Mapping[str, Any]) -> list[str]:
    """What a run shows that is wrong, without the numbers in which two runs may differ.

    The kinds of its findings: those about conformance if it does not conform, else those about
    safety if it is not safe. Of an unknown run the reason. A run that conforms and is safe shows
    nothing.

    Args:
        judged: The content of results.json.
    """
    if None in (judged["conforms"], judged["safe"]):
        return [f"unknown: {re.sub('[0-9]+', 'N', str(judged['unknown']))[:_REASON]}"]
    question = Question.SAFETY if judged["conforms"] else Question.CONFORMANCE
    return sorted(
        {
            "/".join([one["kind"], *([what] if what else [])])
            for one in judged["findings"]
            if KINDS[one["kind"]].question is question
            for what in [(one.get("evidence") or {}).get("what")]
        }
    )


def name_of(step: Mapping[str, Any]) -> str:
    """The name of a step in its JSON form; of the step inside, where it is only tried."""
    inner = step.get("do")
    return str((inner if isinstance(inner, Mapping) else step)["step"])


def waited_s(observations: Iterable[Mapping[str, Any]], steps: Sequence[str]) -> float:
    """Seconds in which a run did nothing but wait for its gates.

    From the observations' times: steps that only wait, and what follows a fault's effect or its
    healing until the next act or step; after the last healing, until the replicas have settled.

    Args:
        steps: The names of the schedule's steps, by index.
    """
    waited = 0.0
    since: float | None = None
    for one in observations:
        now, kind = float(one["time"]), one["kind"]
        if kind not in _ENDS:
            continue
        waited += now - since if since is not None else 0.0
        since = now if kind in _BEGINS or (kind == "step" and _waits(one, steps)) else None
    return round(waited, 3)


def _waits(observation: Mapping[str, Any], steps: Sequence[str]) -> bool:
    index = int(observation["step"])
    return index < len(steps) and steps[index].startswith(_GATES)
