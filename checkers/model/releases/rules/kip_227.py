"""KIP-227: incremental fetches."""

from kchaos.checkers.model.releases.probes import Probe
from kchaos.checkers.model.releases.rule import Rule

KIP_227 = Rule(
    name="KIP-227",
    since=("1.1.0",),
    protocol="1.1-IV0",
    source="kafka.server.FetchSession",
    tag="1.1.0",
    meaning="Fetches are incremental: a session leaves out partitions that have not changed.",
    probes=(
        Probe(
            file="FetchSession",
            present=r"class IncrementalFetchContext\(",
        ),
    ),
    followed="elsewhere",
)
