"""Pages that a program writes have a line for each room, module and rule."""

import re

import pytest

from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from tests import built_pages

pytestmark = pytest.mark.slow


def test_every_room_and_module_says_its_subject():
    page = built_pages.modules_page()
    assert "`judge.py`: " in page
    assert re.findall(r"^- `.*`: $|^## \S+(?=\n\n-)", page, re.MULTILINE) == []


def test_the_page_of_rules_says_how_each_is_predicted():
    page = built_pages.rules_page()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == [rule.name for rule in EVERY_RULE]
    predicted = {rule.name: built_pages.predicted(rule) for rule in EVERY_RULE}
    assert predicted["KIP-101"] == "a decision of its own, which `--without` switches off"
    assert predicted["KIP-537"] == "no decision point of its own; releases differ by other means"
