"""What is played, in which order, and how its progress is told."""

from pathlib import Path

import pytest

from kchaos.clusters.errors import ReleaseError
from kchaos.harness.catalogue import entry_named
from kchaos.harness.commands.reproduce import reproduce, time_left
from kchaos.harness.run.runner import RunOptions


@pytest.mark.parametrize(
    ("spent_s", "done", "wanted", "told"),
    [
        (0.0, 0, 8, ""),
        (12.0, 1, 1, ""),
        (12.0, 1, 4, " (about 36 s left)"),
        (60.0, 2, 8, " (about 3 min left)"),
    ],
)
def test_the_time_left_is_told_once_something_is_done(
    spent_s: float, done: int, wanted: int, told: str
) -> None:
    assert time_left(spent_s, done, wanted) == told


def test_an_unknown_release_is_refused_before_the_first_cluster_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise AssertionError("a cluster was started")

    monkeypatch.setattr("kchaos.harness.commands.reproduce.play", refuse)
    with pytest.raises(ReleaseError, match=r"7\.0\.0"):
        reproduce(
            entry_named("KAFKA-6361"),
            cases=(),
            kafkas=("1.1.1", "7.0.0"),
            runs=1,
            judged_as=None,
            options=RunOptions(runs_directory=tmp_path),
            say=lambda _text: None,
            done=lambda _played: None,
        )
