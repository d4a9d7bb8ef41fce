"""Golden runs as they are stored: packed, sealed again, each with what it was judged to be."""

import difflib
import io
import json
import re
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from kchaos.checkers.archives import extract
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model.follow.observations import Record, RequestSeen
from kchaos.checkers.model.releases.status import status
from kchaos.checkers.model.releases.versions import RELEASED
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.record import predict_run, record_of
from kchaos.checkers.results import Results, write_judgement
from kchaos.checkers.run_directory import JUDGEMENTS, MANIFEST, RunDirectory
from kchaos.harness.report.cause.causes import cause_of_run
from kchaos.harness.report.loading import load

RUNS = Path(__file__).with_name("runs")
OTHERS = Path(__file__).with_name("others")
"""Runs of catalogue entries, for evidence that the scenario of the golden runs has not."""
BORDERS = Path(__file__).with_name("borders")
"""Runs on both sides of the border of a rule (`tests.golden.test_borders`)."""
SETTINGS = Path(__file__).with_name("settings")
"""Runs with settings that the model follows (`tests.golden.test_settings`)."""
ENTRIES = Path(__file__).with_name("entries")
"""Runs of entries of the catalogue, which CI judges in place of a play."""
HARD = Path(__file__).with_name("hard_to_follow")
"""Runs that took too many states to follow once."""
KRAFT = Path(__file__).with_name("kraft")
"""Runs of KRaft clusters (`tests.golden.test_kraft`)."""
CASES = Path(__file__).with_name("cases")
"""Runs of cases of `tests/cases`, mostly on the newest release of each."""
RELEASES = tuple(
    release for release in RELEASED if status(release).compared and status(release).played
)
"""Those with a golden run."""
QUICK = ("0.10.2.2", "1.1.1", "2.8.2", "3.9.1", "forged-2.0.1")
"""Those that `make quick` judges too."""
OTHER_NAMES = tuple(sorted(folder.name for folder in OTHERS.iterdir()))
KRAFT_NAMES = tuple(
    sorted(
        folder.name
        for folder in KRAFT.iterdir()
        if json.loads((folder / "expected.json").read_text())["conforms"]
    )
)
"""KRaft runs with links, which are predicted; no other run has such a name."""
_OF_LOGS = (
    r"Kafka version|advertised\.listeners = | ERROR | FATAL |successfully replaced with the future"
    r"|Leader \S+ .*starts at leader epoch"
)
# What is written beside the evidence later; a report says where the run lay.
_MADE_LATER = (JUDGEMENTS, MANIFEST, "report.html")
# What says where and by whom a run was played; nothing is judged by it.
_OF_THE_MACHINE = ("command", "replay", "platform", "python")


def store(
    run: RunDirectory, release: str, *, runs: Path = RUNS, again: bool = False, lines: str = ""
) -> None:
    """Pack a run and write down what it is judged to be.

    Of what the brokers logged only the lines are kept by which runs are judged, and those in which
    `lines`, an expression, is found; all, if the scenario expects a witness there: they are most
    of a run. The rest is sealed again by `RunDirectory`.

    Raises:
        FileExistsError: The release has a golden run, and `again` is false.
        ValueError: The run is not as expected, so that it shows nothing.
    """
    folder = runs / release
    if folder.exists() and not again:
        raise FileExistsError(f"{folder} exists; say --again to play {release} once more")
    with tempfile.TemporaryDirectory() as temporary:
        small = _small(run, Path(temporary) / "run", lines)
        results = judge(small)
        # An unsafe run shows what it ends with, although the model gives up on it.
        if not results.expected and not (results.conforms is None and results.safe is False):
            raise ValueError(f"{run.path} is not as expected:\n{why(results)}")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.tar.xz").write_bytes(_packed(small.path))
        write_expected(release, said_of(small, results), runs=runs)


@cache
def recorded(name: str, *, runs: Path | None = None) -> Record:
    """Return what was seen of a stored run, in one record; each process reads a run once."""
    with tempfile.TemporaryDirectory(prefix="kchaos-golden-") as folder:
        return record_of(RunEvidence(unpacked(name, Path(folder), runs=runs)))


def unpacked(release: str, folder: Path, *, runs: Path | None = None) -> RunDirectory:
    """Return the golden run of a release, unpacked into a new folder below `folder`.

    Without `runs` it may be one of `OTHER_NAMES` or `KRAFT_NAMES` too.
    """
    runs = runs or (OTHERS if release in OTHER_NAMES else KRAFT if release in KRAFT_NAMES else RUNS)
    path = folder / f"golden-{release}"
    with tarfile.open(runs / release / "run.tar.xz") as archive:
        extract(archive, path)
    return RunDirectory.open(path)


def expected_of(release: str, *, runs: Path = RUNS) -> dict[str, Any]:
    """Return what was written down about the release's golden run; see `said_of`."""
    said: dict[str, Any] = json.loads((runs / release / "expected.json").read_text())
    return said


def write_expected(release: str, said: dict[str, Any], *, runs: Path = RUNS) -> None:
    """Write down what is said of the release's golden run, in place of what was."""
    (runs / release / "expected.json").write_text(json.dumps(said, indent=1) + "\n")


def judged_as_stored(name: str, folder: Path, *, runs: Path = RUNS) -> Results:
    """Judge a stored run once, in `folder`, and require that all who speak of it say what they did.

    The judge and the model say what is in its expected.json. Where it has a cause.txt, the report
    has that as the cause of its finding, with one decisive fact and its time. A sentence that
    changed: read it, and set it there.
    """
    run = unpacked(name, folder, runs=runs)
    read: list[RunEvidence] = []

    def predict(evidence: RunEvidence) -> Prediction:
        read.append(evidence)
        return predict_run(evidence)

    results = judge(run, predict=predict)
    _require_alike(
        json.dumps(expected_of(name, runs=runs), indent=1),
        json.dumps(said_of(run, results, *read), indent=1),
        why(results),
    )
    cause = runs / name / "cause.txt"
    if cause.is_file():
        write_judgement(run, results)
        steps = cause_of_run(load(run))
        told = [f"{'decisive: ' if step.is_fatal else ''}{step.text}" for step in steps]
        _require_alike(cause.read_text().rstrip("\n"), "\n".join(told), "")
        if results.safe is False:
            (decisive,) = (step for step in steps if step.is_fatal)
            assert decisive.time is not None or decisive.section == "replicas", decisive.text
    return results


def _require_alike(stored: str, now: str, why_now: str) -> None:
    changed = difflib.unified_diff(
        stored.splitlines(), now.splitlines(), "stored", "now", lineterm="", n=0
    )
    assert stored == now, "\n".join([*changed, why_now])


def said_of(
    run: RunDirectory, results: Results, evidence: RunEvidence | None = None
) -> dict[str, Any]:
    """Return what the judge and the model say of a run, as plain JSON values.

    `evidence` is the run's, if it was read already. `rounds` are the predicted questions for leader
    epochs with their answers, `truncations` what followers cut off, and `questions` is how many
    requests of fetchers were followed.
    """
    prediction = results.prediction
    seen = record_of(evidence or RunEvidence(run)).seen
    return {
        "conforms": results.conforms,
        "safe": results.safe,
        "findings": [_in_words(finding) for finding in results.findings],
        "rounds": [
            f"{asked.follower} asked {asked.leader} for epoch {asked.requested_epoch}"
            f"{' by fetching' if asked.by_fetch else ''}: "
            f"({asked.answered_epoch}, {asked.end_offset})"
            for asked in (prediction.rounds if prediction else ())
        ],
        "truncations": [
            f"{cut.broker} from {cut.log_end_offset_before} to {cut.target_offset}"
            for cut in (prediction.truncations if prediction else ())
        ],
        "questions": sum(isinstance(item.what, RequestSeen) for item in seen),
    }


def not_asked(_evidence: RunEvidence) -> Prediction:
    """Take the model's place, which searches for long, and says nothing of promises or reads."""
    raise CheckError("the model was not asked")


def why(results: Results) -> str:
    """Return what led to the results, a line each."""
    lines = [f"{finding.kind}: {finding.message}" for finding in results.findings]
    lines += [results.reason, results.unknown or "", *results.crashes]
    return "\n".join(line for line in lines if line)


def _in_words(finding: Any) -> str:
    where = f"{finding.topic}-{finding.partition} " if finding.topic else ""
    brokers = ", ".join(map(str, finding.brokers))
    return f"{finding.kind} {where}on {brokers} at {finding.first_offset} to {finding.last_offset}"


def _small(run: RunDirectory, path: Path, lines: str) -> RunDirectory:
    wanted = re.compile("|".join(filter(None, (_OF_LOGS, lines))))
    expectation = run.read("scenario.json").get("expectation") or {}
    has_log_witness = any("log" in each for each in expectation.get("witness") or ())
    shutil.copytree(run.path, path, ignore=shutil.ignore_patterns(*_MADE_LATER))
    for log in path.glob("brokers/*/*.log") if not has_log_witness else ():
        kept = [line for line in log.read_text().splitlines() if wanted.search(line)]
        log.write_text("".join(f"{line}\n" for line in kept))
    small = RunDirectory(path)
    chosen = {
        key: value for key, value in run.read("run.json").items() if key not in _OF_THE_MACHINE
    }
    small.write("run.json", chosen, replace=True)
    small.seal()
    return small


def _packed(folder: Path) -> bytes:
    """Return a .tar.xz that is the same for the same files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=9, format=tarfile.GNU_FORMAT) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                entry = tarfile.TarInfo(str(file.relative_to(folder)))
                entry.size = file.stat().st_size
                with file.open("rb") as content:
                    archive.addfile(entry, content)
    return packed.getvalue()
