"""A log that is cut by hand after an unclean election which lost nothing: a run to store.

`python -m tests.golden.cut_by_hand [--whole]` plays it on real brokers and stores it among the
KRaft runs. Three replicas are killed, so that none is eligible, and the last known leader leads
again with all its records (KIP-966). Then all stop cleanly, the last one's segment is cut, which no
act says, and the others follow it. With `--whole` nothing is cut.
"""

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import kchaos as k
from kchaos.checkers import acts
from kchaos.checkers.segments.reader import read_segment
from kchaos.clusters.start.log_directories import replica_directory
from tests.golden.stored import store

KRAFT = Path(__file__).with_name("kraft")
CUT, WHOLE = "4.1.2-cut-by-hand", "4.1.2-last-known-leader-has-all"
_RELEASE = "4.1.2"
_ALL = (0, 1, 2)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}


@dataclass(frozen=True, kw_only=True)
class CutBehindFirstBatch:
    """A stopped broker's only segment ends behind its first batch; the journal has no act of it."""

    broker: int

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = ()

    def available(self, view: k.ClusterView) -> str:
        """A broker that does not run."""
        return "it runs" if view.brokers[self.broker].is_running else ""

    @contextlib.contextmanager
    def inject(self, cluster: k.Cluster, journal: k.Journal) -> Iterator[k.Injection]:
        """Cut the file."""
        directories = cluster.brokers[self.broker].log_directories
        (segment,) = replica_directory(directories, "t", 0).glob("*.log")
        content = segment.read_bytes()
        batch = read_segment(content, base_offset=0, file=segment.name).batches[0]
        segment.write_bytes(content[: batch.position + batch.size_bytes])
        yield k.Injection(fault="CutBehindFirstBatch")


def scenario_of(*, is_cut: bool) -> k.Scenario:
    """Return the scenario, with or without the cut."""
    left = 5 if is_cut else 10
    steps: tuple[k.Step, ...] = (
        k.CreateTopic(topic="t", assignment=(_ALL,)),
        *(k.Produce(operation=name, records=5, acks=-1, **_T0) for name in ("first", "last")),
        k.AwaitReplicated(brokers=_ALL, log_end_offset=10, **_T0),
        *(k.Inject(name=f"dead-{broker}", fault=k.KillBroker(broker=broker)) for broker in (1, 2)),
        k.AwaitState(leader=0, isr=(0,), **_T0),
        k.Inject(name="dead-0", fault=k.KillBroker(broker=0)),
        *(k.Heal(name=f"dead-{broker}") for broker in _ALL),
        k.AwaitState(leader=0, isr=_ALL, **_T0),
        *(
            k.Inject(name=f"stopped-{broker}", fault=k.StopBroker(broker=broker))
            for broker in (1, 2)
        ),
        k.AwaitState(leader=0, isr=(0,), **_T0),
        k.Inject(name="stopped-0", fault=k.StopBroker(broker=0)),
        *((k.Inject(name="cut", fault=CutBehindFirstBatch(broker=0)),) if is_cut else ()),
        *(k.Heal(name=f"stopped-{broker}") for broker in _ALL),
        k.AwaitState(leader=0, isr=_ALL, **_T0),
        k.AwaitReplicated(brokers=_ALL, log_end_offset=left, **_T0),
    )
    lost = {"kind": "committed-loss", "brokers": [0, 1, 2], "first_offset": 5, "last_offset": 9}
    return k.Scenario(
        entry="cut-by-hand",
        case="",
        release=_RELEASE,
        steps=steps,
        cluster=k.ClusterSpec(brokers=k.brokers_of(_RELEASE, _ALL), mode="kraft", linked=False),
        expectation={"safe": not is_cut, "findings": [lost] if is_cut else []},
    )


def main() -> None:
    """Play one of the two and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="cut nothing")
    parser.add_argument("--runs-dir", type=Path, default=Path("kchaos-runs"))
    given = parser.parse_args()
    options = k.RunOptions(runs_directory=given.runs_dir)
    run = k.play(scenario_of(is_cut=not given.whole), options=options, say=print)
    store(run, WHOLE if given.whole else CUT, runs=KRAFT, again=True)


if __name__ == "__main__":
    main()
