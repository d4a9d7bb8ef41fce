"""A seed holds for one version, and says so."""

import pytest

from kchaos.harness import seeds
from kchaos.harness.commands.cli import run
from kchaos.harness.seeds import seed_in, seed_text


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "own_version", lambda: "1.2.3")


def test_a_seed_is_named_with_its_version_and_read_back():
    assert seed_text(7) == "7@1.2.3"
    assert (seed_in("7@1.2.3"), seed_in("7")) == (7, 7)


def test_a_seed_of_another_version_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match=r"of kchaos 1\.2\.2, and this is 1\.2\.3.*kchaos replay"):
        seed_in("7@1.2.2")


@pytest.mark.parametrize("text", ["", "-1", "x", "7@", "7 @1.2.3"])
def test_what_is_no_seed_is_refused(text: str):
    with pytest.raises(ValueError, match="is no seed such as 7 or 7@1"):
        seed_in(text)


@pytest.mark.parametrize(
    "command",
    [
        ["chaos", "--kafka", "1.1.1"],
        ["nightly", "--kafka", "1.1.1"],
        ["upgrade", "--from", "2.0.0", "--to", "2.0.1", "--plan"],
        ["compare", "kip-279"],
    ],
)
def test_each_command_that_draws_refuses_a_seed_of_another_version(
    command: list[str], capsys: pytest.CaptureFixture[str]
):
    assert run([*command, "--seed", "7@0.9"]) == 64
    assert "seed 7 is of kchaos 0.9, and this is 1.2.3" in capsys.readouterr().err
