"""Bounds of availability: what was longer without service than a scenario allows."""

from collections.abc import Iterator
from dataclasses import asdict

from kchaos.checkers.availability import bounded, bounds_of, measure
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import UNAVAILABLE, Finding


def unavailable(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield each outage that is longer than the scenario's expectation allows.

    Time in which the machine let nothing run does not count, wherever in the run it was.

    **Verifies**: the bounds under "availability" of the expectation, for each partition, consumer
    and fault of which they were measured.
    **Does not verify**: what could not be measured; the judge says that such a bound is unknown.
    """
    bounds = bounds_of(evidence.scenario.expectation)
    if bounds is None:
        return
    asked, stood_s = asdict(bounds), evidence.stood_still_s()
    for value in bounded(measure(evidence)):
        bound = asked[value.bound]
        if bound is None or (value.seconds is not None and value.seconds <= bound + stood_s):
            continue
        long = "at all" if value.seconds is None else f"for {value.seconds:g} s"
        yield Finding(
            kind=UNAVAILABLE,
            topic=value.topic,
            partition=value.partition,
            message=f"{value.what} {long}; the scenario allows {bound:g} s",
            evidence={"bound": value.bound, "allowed_s": bound, "seconds": value.seconds},
        )
