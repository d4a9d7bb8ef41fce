"""Messages about controllers that have no leader."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.start import jvm_controller
from kchaos.clusters.start.jvm_controller import JvmController
from kchaos.clusters.start.kraft_storage import METADATA_FOLDER

VOTERS = [100, 101, 102]
STATE = '{"leaderId":-1,"leaderEpoch":12,"votedId":100,"data_version":0}'


@pytest.mark.parametrize(
    ("state", "election"),
    [
        (STATE, "epoch 12, vote for 100 (-1: nobody)"),
        (None, "no election yet"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
    ],
)
def test_a_quorum_that_elects_nobody_says_what_was_seen_of_it(
    state: str | None, election: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jvm_controller, "answers_at", lambda _address: True)
    if state is not None:
        file = tmp_path / METADATA_FOLDER / "quorum-state"
        file.parent.mkdir()
        file.write_text(state)
    said = {"log.dir": str(tmp_path)}
    place = SimpleNamespace(
        id=100,
        role="controller",
        directory=tmp_path,
        disk=None,
        agent=None,
        gate=None,
        client_port=SimpleNamespace(number=2000),
        ports=(SimpleNamespace(number=2000),),
        distribution_of=lambda _kafka: SimpleNamespace(release="4.1.2"),
        base_properties=lambda _distribution, _stage: said,
        metadata=lambda: SimpleNamespace(controller=lambda: None, voters=lambda: {*VOTERS}),
    )
    controller = JvmController(place=cast(Any, place), kafka="4.1.2", own_properties={})
    controller._process = cast(Any, SimpleNamespace(exit_code=None))
    with pytest.raises(AwaitTimeout) as raised:
        controller.await_ready(timeout_s=0)
    assert "for controller 100 (4.1.2) to answer at 127.0.0.1:2000, and for" in str(raised.value)
    assert raised.value.last_seen == (
        f"it answers; leader None; quorum-state: {election}; voters {VOTERS}"
    )
    assert "more than half of the voters must run" in str(raised.value)

    # Two of three voters are down, so that none of them can lead; an observer elects nobody.
    runs = {100: True, 101: False, 102: False, 103: True}
    controller.quorum = cast(
        Any,
        {
            node: SimpleNamespace(id=node, is_running=is_running, is_paused=False)
            for node, is_running in runs.items()
        },
    )
    controller.await_ready(timeout_s=0)
