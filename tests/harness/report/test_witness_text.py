"""Witnesses as sentences."""

from collections.abc import Mapping
from typing import Any

import pytest

from kchaos.harness.catalogue import CATALOGUE
from kchaos.harness.report.witness_text import witness_text


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"round": {"follower": 1, "leader": 0, "requested_epoch": 2, "end_offset": 21}},
            "Broker 1 asks broker 0 where leader epoch 2 ends, and the answer is 21",
        ),
        (
            {"log": {"broker": 1, "pattern": "Truncating"}},
            "The log of broker 1 has a line that matches Truncating",
        ),
        (
            {"hit": {"point": "fetch-read", "broker": 0, "fate": "held"}},
            "A thread of broker 0 came to fetch-read and was held",
        ),
        (
            {"link": {"api": "Fetch", "direction": "response", "detail": {"error_code": 6}}},
            "Fetch response, detail with error code 6",
        ),
        (
            {"link": {"api": "Fetch", "direction": "response", "source": 2, "target": 1}},
            "Fetch response from broker 1 to broker 2",
        ),
        (
            {"link": {"api": "Fetch", "direction": "request", "source": 2, "target": 1}},
            "Fetch request from broker 2 to broker 1",
        ),
        (
            {"epochs": {"snapshot": "final", "broker": 0, "partition": "t-0", "starts": [0, 5]}},
            "The leader epochs of t-0 on broker 0 begin at 0, 5 in snapshot final",
        ),
    ],
)
def test_each_form_reads_as_a_sentence(wanted: Mapping[str, Any], told: str) -> None:
    assert witness_text(wanted) == told


def test_no_witness_of_the_catalogue_shows_json() -> None:
    for entry in CATALOGUE.values():
        for expectation in entry.expectations.values():
            for wanted in expectation.to_json()["witness"]:
                ((form, fields),) = wanted.items()
                told = witness_text(wanted)
                # A regular expression is shown as it is.
                shown = told.replace(fields["pattern"], "") if form == "log" else told
                assert not set("{}[]") & set(shown), (entry.name, told)
