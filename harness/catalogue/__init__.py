"""The catalogue: one small file per known bug; a new one is imported and listed here."""

from collections.abc import Mapping

from harness.catalogue.entry import Entry
from harness.catalogue.kafka_6361 import KAFKA_6361
from harness.catalogue.kip_101_1 import KIP_101_1
from harness.catalogue.kip_101_2 import KIP_101_2
from harness.catalogue.kip_279_3 import KIP_279_3
from harness.errors import UsageError
from harness.scenario import Scenario

CATALOGUE: Mapping[str, Entry] = {
    entry.name: entry for entry in (KAFKA_6361, KIP_101_1, KIP_101_2, KIP_279_3)
}


def entry_named(name: str) -> Entry:
    """The entry; upper and lower case are the same.

    Raises:
        UsageError: There is none.
    """
    for known, entry in CATALOGUE.items():
        if known.lower() == name.lower():
            return entry
    raise UsageError(f"no bug named {name!r} in the catalogue; known: {', '.join(CATALOGUE)}")


def scenario_of(entry: Entry, case: str, kafka: str) -> Scenario:
    """One case of an entry, on a release or a path to a distribution.

    Raises:
        UsageError: The entry has no such case.
    """
    if case not in entry.cases:
        raise UsageError(f"{entry.name} has no case {case!r}; known: {', '.join(entry.cases)}")
    expectation = entry.expectations.get((case, kafka))
    return Scenario(
        entry=entry.name,
        case=case,
        release=kafka,
        cluster=entry.cluster(kafka),
        steps=entry.steps(case),
        expectation=expectation.to_json() if expectation is not None else None,
    )
