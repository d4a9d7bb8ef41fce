"""A rule says everything in its own file, and rules are found and put in order without a list."""

import re
import tomllib
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases import every_rule, rules
from kchaos.checkers.model.releases.composition import versions_of
from kchaos.checkers.model.releases.every_rule import EVERY_RULE, RULES, in_order
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.first_release import fetch_from_log_end, first_generation
from kchaos.checkers.model.releases.versions import parse_version

WHOLE: dict[str, Any] = {
    "name": "KAFKA-0",
    "since": ("2.1.0",),
    "source": "kafka.cluster.Partition, 2.1.0",
    "meaning": "It does.",
}


def rule(name: str, since: str, *after: str) -> Rule:
    source = f"kafka.cluster.Partition, {since}"
    return Rule(**{**WHOLE, "name": name, "since": (since,), "source": source, "after": after})


@pytest.mark.parametrize(
    ("changed", "why_not"),
    [
        ({"since": ()}, "does not say its since"),
        ({"source": ""}, "does not say its source"),
        ({"source": "kafka.cluster.Partition"}, "is not a Kafka release"),
        ({"meaning": "", "since": ()}, "does not say its since, meaning"),
        ({"since": ("2.1.0", "2.0.0")}, "are no first releases"),
        ({"since": ("2.x",)}, "is not a Kafka release"),
        ({"since": ("9.0.0",), "source": "Partition, 9.0.0"}, "is in no release"),
        ({"until": ("2.1.0",)}, "is in no release"),
        ({"source": "Partition, 2.0.1"}, "not in Partition, 2.0.1"),
        ({"protocol": "newest"}, "is not a Kafka release"),
        ({"change": lambda known: known, "followed": "never"}, "says followed besides"),
    ],
)
def test_a_rule_that_does_not_say_everything_is_refused_by_name(
    changed: dict[str, Any], why_not: str
):
    with pytest.raises(ModelError, match=f"'KAFKA-0'.*{re.escape(why_not)}"):
        Rule(**{**WHOLE, **changed})


def test_every_rule_that_a_module_or_the_table_writes_down_is_found():
    folder = Path(*rules.__path__)
    texts = [file.read_text() for file in folder.glob("*.py")]
    written = [name for text in texts for name in re.findall(r'\bRule\(\s*name="(.+)"', text)]
    rows = tomllib.loads((folder / "table.toml").read_text())
    assert {*written, *rows} == {rule.name for rule in EVERY_RULE}
    assert sum(len(re.findall(r"\bRule\(", text)) for text in texts) == len(written)


def test_a_row_that_sets_what_is_no_decision_point_is_refused_by_name():
    with pytest.raises(ModelError, match="'KAFKA-0' sets learns_nothing, which is no decision"):
        every_rule._of_row("KAFKA-0", WHOLE | {"sets": {"learns_nothing": True}})


def test_a_new_module_is_all_that_a_new_rule_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "kafka_0.py").write_text(
        f"from kchaos.checkers.model.releases.rule import Rule\nKAFKA_0 = Rule(**{WHOLE!r})\n"
    )
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    ordered = in_order(every_rule._listed())
    known = {each.name for each in EVERY_RULE}
    assert [each.name for each in ordered if each.name not in known] == ["KAFKA-0"]


def test_rules_are_in_the_order_of_their_first_releases_and_behind_those_that_they_name():
    backported, late, early = rule("b", "2.7.2"), rule("c", "2.8.0"), rule("d", "0.11.0.0")
    assert in_order([late, backported, early]) == (early, backported, late)
    after = rule("a", "2.7.2", "c")
    assert in_order([after, late, backported]) == (backported, late, after)


@pytest.mark.parametrize(
    "unordered",
    [
        [rule("a", "2.1.0", "b"), rule("b", "2.1.0", "a")],
        [rule("a", "2.1.0", "unheard of")],
        [rule("a", "2.1.0"), rule("a", "2.2.0")],
    ],
)
def test_rules_that_wait_for_each_other_or_have_one_name_are_refused(unordered: list[Rule]):
    with pytest.raises(ModelError, match="a"):
        in_order(unordered)


def _changed(rule: Rule) -> set[str]:
    """Return the decision points that a rule sets, also to what 0.10.2 does there."""
    first = first_generation("0.10.2.0", versions_of("0.10.2.0"))
    sentinels: dict[str, Any] = {field.name: object() for field in fields(first)}
    known: Generation = replace(first, **sentinels)
    assert rule.change is not None
    changed = rule.change(known)
    return {
        field.name
        for field in fields(known)
        if getattr(changed, field.name) is not getattr(known, field.name)
    }


def _is_undecided(each: Rule, other: Rule) -> bool:
    """Tell whether first releases leave the order open, or a backport turns it round."""
    first, last = (
        [parse_version(rule.since[index]) for rule in (each, other)] for index in (0, -1)
    )
    return first[0] == first[1] or last[0] > last[1]


def _undecided(rules: tuple[Rule, ...]) -> list[tuple[str, str]]:
    changes = {rule.name: _changed(rule) for rule in rules}
    return [
        (each.name, other.name)
        for each, other in combinations(rules, 2)
        if _is_undecided(each, other)
        and changes[each.name] & changes[other.name]
        and each.name not in other.after
    ]


def test_of_two_rules_of_one_release_that_change_the_same_one_names_the_other():
    """Else their names, or the release of a backport, would decide which of them wins."""
    assert _undecided(RULES) == []


@pytest.mark.parametrize("since", [("2.8.0",), ("2.7.2", "3.0.0")])
def test_a_rule_whose_place_is_open_is_told(since: tuple[str, ...]):
    """KAFKA-10554 of 2.8.0 changes where a fetch begins, too."""
    changing = {
        **WHOLE,
        "since": since,
        "source": f"Partition, {since[0]}",
        "change": lambda known: replace(known, first_fetch=fetch_from_log_end),
    }
    told = _undecided(in_order((*RULES, Rule(**changing))))
    assert told == [("KAFKA-0", "KAFKA-10554")]
    behind = in_order((*RULES, Rule(**changing, after=("KAFKA-10554",))))
    assert _undecided(behind) == []
