"""Makes mutants of runs, judges each, and says which of them were believed."""

import json
import math
import random
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Question
from kchaos.checkers.judge import Predict, judge
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.record import predict_run, record_of
from kchaos.checkers.results import Results
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.verdict import FindingKey, finding_key
from tests.golden.stored import KRAFT_NAMES, OTHER_NAMES
from tests.mutants.kinds import KINDS, Kind
from tests.mutants.run_copy import NotApplicableError, RunCopy
from tests.mutants.survivors import is_survivor

# Each module of kinds registers them.
for _module in sorted(Path(__file__).parent.glob("kinds_*.py")):
    import_module(f"tests.mutants.{_module.stem}")

FEW_STATES = 500
"""How many states are tried first, or half more than of the run itself; see `judge_path`."""
OF_OTHERS = {"brokers": "whole", "offsets": "list-offsets", "points": "points", "tier": "tiered"}
"""Areas of evidence that only some of `OTHER_NAMES` have, and how the names of those begin."""
OF_KRAFT = "metadata"
"""The area of evidence that only `KRAFT_NAMES` have."""
ESCAPED = "escaped:"
"""What is said of a mutant begins so if the judge raised what it does not document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One mutant and what became of it.

    Attributes:
        kind: Its kind's name.
        run: The name of the run that it was made of.
        place: What was changed where.
        is_believed: Whether the judge takes it for a run that is as expected, or is flipped.
        is_unknown: Whether it says that it cannot know.
        is_of_unsafe: Whether the run itself is unsafe.
        is_flipped: Whether the run itself is unsafe and the mutant safe, whatever was expected.
        believed_as: Of one that is believed, "hides" if it lacks a finding about safety that the
            run has, "invents" if it has one more, "unread" if no answer depends on the change.
        said: What the judge found instead, or why it cannot know.
        crash: The last line of a checker's traceback, or "".
        seconds: How long judging took.
    """

    kind: str
    run: str
    place: str
    is_believed: bool
    is_unknown: bool
    is_of_unsafe: bool
    is_flipped: bool
    believed_as: str
    said: str
    crash: str
    seconds: float


def mutants(
    run: RunDirectory, kinds: Iterable[Kind], folder: Path, *, seed: int
) -> Iterator[tuple[Kind, str, RunDirectory]]:
    """Each kind's mutant of a run, with its place; those that change nothing are passed over."""
    for kind in kinds:
        number = zlib.crc32(f"{kind.name}/{run.name}/{seed}".encode())
        path = folder / f"{run.name}-{number:08x}"
        copy = RunCopy.of(run, path, random.Random(number))
        try:
            place = kind.mutate(copy)
        except NotApplicableError:
            shutil.rmtree(path)
            continue
        mutant = copy.sealed()
        if copy.is_resealed and _same(mutant, run):
            shutil.rmtree(path)
            continue
        yield kind, place, mutant


def _same(run: RunDirectory, other: RunDirectory) -> bool:
    return (run.path / MANIFEST).read_bytes() == (other.path / MANIFEST).read_bytes()


def judged_mutants(
    run: RunDirectory,
    kinds: Iterable[Kind],
    folder: Path,
    *,
    seed: int = 0,
    is_thorough: bool = False,
) -> Iterator[Judged]:
    """As `mutants`, each judged in plain Python and thrown away; see `judge_path`.

    Raises:
        ValueError: The run itself is not as expected, so that no change of it shows anything.
    """
    made = mutants(run, kinds, folder, seed=seed)
    first = next(made, None)
    if first is None:
        return
    original = judge(run)
    if not original.expected:
        raise ValueError(f"{run.name} is not as expected: {said(original)}; store it anew")
    followed = original.prediction.states if original.prediction is not None else 0
    predict = predict_once(run, original, patience=max(FEW_STATES, followed * 3 // 2))
    for kind, place, mutant in chain([first], made):
        begun = time.perf_counter()
        results, why = judge_path(
            mutant.path, predict=predict, original=original if is_thorough else None
        )
        is_flipped = original.safe is False and _is_safe(mutant, results, predict)
        is_believed = is_flipped or (results is not None and results.expected)
        yield Judged(
            kind=kind.name,
            run=run.name,
            place=place,
            is_believed=is_believed,
            is_unknown=results is None or bool(results.unknown),
            is_of_unsafe=original.safe is False,
            is_flipped=is_flipped,
            believed_as=_as(results, original) if is_believed and results is not None else "",
            said=why if results is None else said(results),
            crash=_crash(results) if results is not None else why if ESCAPED in why else "",
            seconds=time.perf_counter() - begun,
        )
        shutil.rmtree(mutant.path)


def _as(results: Results, original: Results) -> str:
    if _safety(original) - _safety(results):
        return "hides"
    return "invents" if _safety(results) - _safety(original) else "unread"


def _is_safe(mutant: RunDirectory, results: Results | None, predict: Predict) -> bool:
    """Whether a mutant is judged safe where nothing was expected of it but what the model says."""
    if results is None or results.safe or results.expectation_from != "scenario":
        return results is not None and results.safe is True
    scenario = mutant.path / "scenario.json"
    asked = json.loads(scenario.read_text()) | {"expectation": None}
    # The mutant's files are links to the run's own.
    for name in (scenario, mutant.path / MANIFEST):
        name.unlink()
    scenario.write_text(json.dumps(asked))
    mutant.seal()
    again, _ = judge_path(mutant.path, predict=predict)
    return again is not None and again.safe is True


def share(times: int, of: int) -> str:
    """A share in per cent with its 95 % interval (Wilson)."""
    if of == 0:
        return "none of none"
    p, z = times / of, 1.96
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return f"{times} of {of}, {100 * p:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def predict_few(evidence: RunEvidence) -> Prediction:
    """Return what the model predicts with few states."""
    return predict_run(evidence, patience=FEW_STATES)


def predict_once(run: RunDirectory, original: Results, *, patience: int) -> Predict:
    """The model for mutants of a run: what it is told as of the run itself it predicted already.

    Args:
        run: It has links.
        original: Its results.
        patience: For a mutant of which the model is told something else.
    """
    whole, prediction = record_of(RunEvidence(run)), original.prediction

    def predict(evidence: RunEvidence) -> Prediction:
        if prediction is not None and evidence.links is not None and record_of(evidence) == whole:
            return prediction
        return predict_run(evidence, patience=patience)

    return predict


def judge_path(
    path: Path, *, predict: Predict = predict_few, original: Results | None = None
) -> tuple[Results | None, str]:
    """The results of a run directory, or why there can be none.

    A run that no state explains is searched to its end, which takes seconds. Few states are tried
    first: what is believed, or refused for another reason, would be with more states too. If that
    is the only reason, all states are tried when the original's results are given.
    """
    try:
        results = judge(RunDirectory.open(path), predict=predict)
        if original is not None and _is_undecided(results, original):
            results = judge(RunDirectory.open(path))
    except RunDirectoryError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - what escapes is what is looked for
        return None, f"{ESCAPED} {error!r}"
    return results, ""


def _is_undecided(results: Results, original: Results) -> bool:
    limit = results.prediction.limit if results.prediction is not None else ""
    alone = f"the model gave up following the run: {limit}"
    return bool(limit) and results.unknown == alone and _safety(results) == _safety(original)


def _safety(results: Results) -> set[FindingKey]:
    return {
        finding_key(finding) for finding in results.findings if finding.question is Question.SAFETY
    }


def said(results: Results) -> str:
    """What a judgement amounts to, in one line."""
    kinds = sorted({finding.kind for finding in results.findings})
    return "; ".join([*kinds, results.unknown or ""])[:300]


def _crash(results: Results) -> str:
    last = (crash.strip().splitlines()[-1] for crash in results.crashes)
    # The model says so of a timeline that it has no state for; that is an answer.
    return next((line for line in last if "ModelError" not in line), "")


def wrong(judged: Iterable[Judged]) -> list[str]:
    """What may not be: false alarms, crashes, changes that are believed without a reason.

    No reason excuses a change that makes an unsafe run safe.
    """
    collected = []
    for mutant in judged:
        where = f"{mutant.kind} ({mutant.run}, {mutant.place})"
        if KINDS[mutant.kind].is_harmless:
            if not mutant.is_believed:
                collected.append(f"{where}: a false alarm: {mutant.said}")
        elif mutant.is_flipped:
            collected.append(f"{where}: the run is unsafe, and the mutant safe")
        elif mutant.is_believed and not is_survivor(mutant.kind, mutant.run):
            collected.append(f"{where}: it is believed")
        if mutant.crash:
            collected.append(f"{where}: {mutant.crash}")
    return collected


def in_turn(releases: Sequence[str], kinds: Sequence[Kind]) -> list[tuple[str, list[Kind]]]:
    """Each run with its share of the kinds; what only some runs have is changed in those."""
    common = [kind for kind in kinds if kind.area not in (*OF_OTHERS, OF_KRAFT)]
    others = [release for release in releases if release in OTHER_NAMES]
    kraft = [release for release in releases if release in KRAFT_NAMES]
    usual = [release for release in releases if release not in {*others, *kraft}]
    of_kraft = [*common, *(kind for kind in kinds if kind.area == OF_KRAFT)]
    return [
        *((each, common[place :: len(usual)]) for place, each in enumerate(usual)),
        *((other, _own(other, kinds)) for other in others),
        *((each, of_kraft[place :: len(kraft)]) for place, each in enumerate(kraft)),
    ]


def _own(name: str, kinds: Sequence[Kind]) -> list[Kind]:
    return [kind for kind in kinds if name.startswith(OF_OTHERS.get(kind.area, "-"))]


def kinds_named(pattern: str = "") -> list[Kind]:
    """The kinds whose names contain a text, in their order."""
    return [kind for name, kind in KINDS.items() if pattern in name]
