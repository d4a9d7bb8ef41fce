"""A rule says everything in its own file, and rules are found and put in order without a list."""

import re
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases import every_rule, rules
from kchaos.checkers.model.releases.composition import versions_of
from kchaos.checkers.model.releases.every_rule import EVERY_RULE, RULES, in_order
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.probes import Probe
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.first_release import first_generation

WHOLE: dict[str, Any] = {
    "name": "KAFKA-0",
    "since": ("2.1.0",),
    "source": "kafka.cluster.Partition",
    "tag": "2.1.0",
    "meaning": "It does.",
    "probes": (Probe(file="Partition", present="does"),),
}


def rule(name: str, since: str, *after: str) -> Rule:
    return Rule(**{**WHOLE, "name": name, "since": (since,), "tag": since, "after": after})


@pytest.mark.parametrize(
    ("changed", "why_not"),
    [
        ({"since": ()}, "does not say its since"),
        ({"source": ""}, "does not say its source"),
        ({"tag": ""}, "does not say its tag"),
        ({"meaning": "", "probes": ()}, "does not say its meaning, probes"),
        ({"since": ("2.1.0", "2.0.0")}, "are no first releases"),
        ({"since": ("2.x",)}, "is not a Kafka release"),
        ({"since": ("4.2.0",), "tag": "4.2.0"}, "is in no release"),
        ({"until": ("2.1.0",)}, "is in no release"),
        ({"tag": "2.0.1"}, "not in its tag 2.0.1"),
        ({"protocol": "newest"}, "is not a Kafka release"),
        ({"change": lambda known: known, "followed": "never"}, "says followed besides"),
    ],
)
def test_a_rule_that_does_not_say_everything_is_refused_by_name(
    changed: dict[str, Any], why_not: str
) -> None:
    with pytest.raises(ModelError, match=f"'KAFKA-0'.*{re.escape(why_not)}"):
        Rule(**{**WHOLE, **changed})


def test_every_rule_that_a_module_writes_down_is_found() -> None:
    texts = [file.read_text() for file in Path(*rules.__path__).glob("*.py")]
    written = [name for text in texts for name in re.findall(r'\bRule\(\s*name="(.+)"', text)]
    assert sorted(written) == sorted(rule.name for rule in EVERY_RULE)
    assert sum(len(re.findall(r"\bRule\(", text)) for text in texts) == len(written)


def test_a_new_module_is_all_that_a_new_rule_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kafka_0.py").write_text(
        "from kchaos.checkers.model.releases.probes import Probe\n"
        "from kchaos.checkers.model.releases.rule import Rule\n"
        f"KAFKA_0 = Rule(**{WHOLE!r})\n"
    )
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    found = in_order(every_rule._listed())
    assert [one.name for one in found if one not in EVERY_RULE] == ["KAFKA-0"]


def test_rules_are_in_the_order_of_their_first_releases_and_behind_those_that_they_name() -> None:
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
def test_rules_that_wait_for_each_other_or_have_one_name_are_refused(unordered: list[Rule]) -> None:
    with pytest.raises(ModelError, match="a"):
        in_order(unordered)


def _changed(rule: Rule, known: Generation) -> set[str]:
    assert rule.change is not None
    changed = rule.change(known)
    return {
        field.name
        for field in fields(known)
        if getattr(changed, field.name) is not getattr(known, field.name)
    }


def test_of_two_rules_of_one_release_that_change_the_same_one_names_the_other() -> None:
    """Else their names would decide which of them wins."""
    known = first_generation("0.10.2.0", versions_of("0.10.2.0"))
    changes = {rule.name: _changed(rule, known) for rule in RULES}
    undecided = [
        (one.name, other.name)
        for one, other in combinations(RULES, 2)
        if one.releases.since.first == other.releases.since.first
        and changes[one.name] & changes[other.name]
        and one.name not in other.after
    ]
    assert undecided == []
