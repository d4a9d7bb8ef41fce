"""The product finds studies by entry points, and says so where they are not installed."""

from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from kchaos.harness.commands.cli import cli, run
from kchaos.harness.errors import UsageError
from kchaos.harness.player import studied_mixes
from kchaos.harness.player.drawing import draw, require_drawable
from kchaos.harness.player.studied_mixes import WALKED, drawer_of


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studied_mixes, "entry_points", lambda group: ())
    monkeypatch.setattr("kchaos.harness.commands.cli._commands_of_packages", dict)


def test_commands_and_mixes_of_studies_are_there():
    assert {"compare", "explore"}.isdisjoint(cli.commands)
    names = cli.list_commands(cli.make_context("kchaos", ["list"]))
    assert {"compare", "explore", "list"} <= set(names)
    assert [drawer_of(mix).__module__ for mix in WALKED] == ["kchaos.studies.walks"] * 2


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("mix", WALKED)
def test_a_mix_of_walks_without_studies_is_refused_with_what_to_do(mix: str):
    asking: tuple[Callable[[], object], ...] = (
        lambda: draw(1, kafka="1.1.1", steps=2, mix=mix),
        lambda: require_drawable(mix, "1.1.1"),
    )
    for ask in asking:
        with pytest.raises(UsageError, match=f"the mix {mix} comes from the package kchaos.stud"):
            ask()


@pytest.mark.usefixtures("alone")
def test_a_command_of_studies_without_them_is_no_command(capsys: pytest.CaptureFixture[str]):
    assert run(["explore", "--kafka", "1.1.1"]) == 64
    assert "No such command 'explore'" in capsys.readouterr().err


def test_a_command_that_cannot_be_imported_says_which_package_it_is_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    broken = EntryPoint(name="mine", value="no_such_module:mine", group="kchaos.commands")
    monkeypatch.setattr(
        "kchaos.harness.commands.cli._commands_of_packages", lambda: {"mine": broken}
    )
    assert run(["mine"]) == 64
    said = capsys.readouterr().err
    assert "the command mine (no_such_module:mine) cannot be imported: No module named" in said
