"""A fast part of `python -m tests.mutants`: each kind of change once, the releases in turn."""

from pathlib import Path

import pytest

from tests.golden.stored import RELEASES, unpacked
from tests.mutants.kinds import KINDS
from tests.mutants.suite import judged_mutants, wrong
from tests.mutants.survivors import SURVIVORS

_SHARES = 10


@pytest.mark.parametrize("share", range(_SHARES))
def test_no_change_of_evidence_is_believed_that_is_not_in_the_list(
    share: int, tmp_path: Path
) -> None:
    run = unpacked(RELEASES[2 * share], tmp_path)
    kinds = list(KINDS.values())[share::_SHARES]

    judged = list(judged_mutants(run, kinds, tmp_path))

    assert len(judged) > len(kinds) / 2
    assert wrong(judged) == []


def test_there_are_many_kinds_and_every_one_in_the_list_exists() -> None:
    assert len(KINDS) >= 150
    assert set(SURVIVORS) <= set(KINDS)
