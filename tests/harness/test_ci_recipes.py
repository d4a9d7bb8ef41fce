"""The recipes for CI: their syntax, each command with its options, and how they install kchaos."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from kchaos.harness.campaign.schedules import DrawnSchedules
from kchaos.harness.commands.cli import cli

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "docs/ci").glob("*.yml"))
JENKINSFILE = ROOT / "docs/ci/Jenkinsfile"
ALL = (*RECIPES, JENKINSFILE)
_OF_THE_MACHINE = re.compile(r"\$\{\{[^}]*\}\}|\$[A-Z_]+")
_SHELL = ("||", "&&", ">", ">>", "|", ";")


def scripts(value: Any, name: str = "") -> Iterator[str]:
    """Yields each command line of a recipe, whichever job it belongs to."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from scripts(inner, str(key))
        case list():
            for inner in value:
                yield from scripts(inner, name)
        case str() if name in ("run", "script", "before_script", "after_script"):
            yield from value.splitlines()


def shell_lines(recipe: Path) -> list[str]:
    """Return each line that the recipe gives to a shell."""
    text = recipe.read_text()
    if recipe == JENKINSFILE:
        quoted = re.findall(r'sh (?:"""(.*?)"""|\'([^\']*)\')', text, re.DOTALL)
        lines = [line for pair in quoted for line in "".join(pair).splitlines()]
        return [line.strip().replace(".venv/bin/", "") for line in lines if line.strip()]
    return list(scripts(yaml.safe_load(text)))


def kchaos_lines(recipe: Path) -> list[list[str]]:
    """The words of each kchaos command, up to what is the shell's."""
    lines = []
    for line in shell_lines(recipe):
        words = shlex.split(_OF_THE_MACHINE.sub("1", line))
        if words[:1] == ["kchaos"]:
            end = next((at for at, word in enumerate(words) if word in _SHELL), len(words))
            lines.append(words[1:end])
    return lines


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.stem)
def test_each_recipe_installs_kchaos_from_one_address(recipe: Path):
    assert len(RECIPES) == 2
    install = [line for line in shell_lines(recipe) if "pip install" in line]
    assert install != []
    assert all(line.endswith('pip install "$KCHAOS"') for line in install)
    assert re.search(r"KCHAOS(:| =) '?git\+https://\S+/kchaos@main", recipe.read_text())


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.stem)
def test_each_command_of_a_recipe_is_one_of_kchaos(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "baseline.jsonl").touch()
    lines = kchaos_lines(recipe)
    assert [words[0] for words in lines] == ["nightly", "summary"]
    # Each night first runs again what the nights before found, so that "gone" is a fact.
    assert all(words[words.index("--baseline") + 1] == "baseline.jsonl" for words in lines)
    for name, *arguments in lines:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        # Reads every option by its type; nothing is carried out.
        command.make_context(name, arguments)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_the_parts_of_a_recipe_are_the_shards_and_the_summary_has_all(recipe: Path):
    content = yaml.safe_load(recipe.read_text())
    jobs = content.get("jobs", content)
    nightly, summary = kchaos_lines(recipe)
    parts = int(nightly[nightly.index("--shard") + 1].split("/")[1])
    night = jobs["night"]
    side_by_side = night["strategy"]["matrix"]["part"] if "strategy" in night else None
    assert parts == (night["parallel"] if side_by_side is None else len(side_by_side))
    assert [word for word in summary if word.startswith("night-")] == [
        f"night-{part}" for part in range(1, parts + 1)
    ]
    seeds = set()
    for part in range(1, parts + 1):
        due = DrawnSchedules(
            kafkas=("2.8.2",), seed=1, mixes={"cuts": 1}, steps=1, gated=True, shard=(part, parts)
        ).due({"2.8.2": "2.8.2"})
        seeds |= {next(due).seed for _ in range(5)}
    assert len(seeds) == 5 * parts
