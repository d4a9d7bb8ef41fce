"""Semantic mutants of the checkers: which changes are made of a text, and that one is noticed."""

import pytest

from tests.semantic_mutants import ROOT, main, mutants_of, near_tests

TEXT = """
def held(first, last, kept):
    if first < last and not kept:
        return max(offset for offset in kept if offset)
    return True
"""


def test_each_condition_is_changed_in_each_way() -> None:
    made = [*mutants_of("f.py", TEXT)]
    assert sorted(mutant.change for mutant in made) == [
        "True -> False",
        "first < last -> first <= last",
        "first < last and not kept -> False",
        "first < last and not kept -> True",
        "first < last and not kept -> first < last",
        "first < last and not kept -> first < last or not kept",
        "first < last and not kept -> not kept",
        "max -> min",
        "not kept -> kept",
        "offset -> True",
    ]
    assert all(mutant.source != TEXT and compile(mutant.source, "f", "exec") for mutant in made)
    assert {mutant.line for mutant in made} == {3, 4, 5}


def test_the_tests_that_import_a_module_are_near_it() -> None:
    assert "tests/checkers/test_not_modelled.py" not in near_tests("checkers/rules/as_sent.py")
    assert "tests/checkers/test_foreign.py" in near_tests("checkers/rules/as_sent.py")


@pytest.mark.slow
def test_a_mutant_that_a_test_ends_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    framing = "checkers/segments/framing.py"
    (line,) = {
        mutant.line
        for mutant in mutants_of(framing, (ROOT / framing).read_text())
        if mutant.change == "magic < 2 -> magic <= 2"
    }
    place = f"{framing}:{line}"
    alone = ["tests/checkers/test_survivors.py"]
    monkeypatch.setattr("tests.semantic_mutants.near_tests", lambda _: alone)
    monkeypatch.setattr("sys.argv", ["semantic_mutants", "--at", place, "--tests-only"])

    main()

    assert f"{place} magic < 2 -> True: FAILED" in capsys.readouterr().out
