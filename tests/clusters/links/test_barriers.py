"""How long a rule waits for what passes already: a clock that stands with the machine tells it."""

import pytest

from kchaos.clusters.links import links


def test_a_rule_waits_on_while_the_machine_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock stands for three looks, and the thread is done at the fifth.
    times = iter([0.0, 0.0, 0.0, 0.5, 0.6, 1.2])
    monkeypatch.setattr(links, "awake_s", lambda: next(times))
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) == 5

    assert links._by(1.0, wait)
    assert not links._by(1.0, lambda seconds: seconds > 0)
