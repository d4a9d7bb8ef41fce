"""Duration of one case of KAFKA-6361, part by part: `python -m benchmarks.reproduce [RELEASE]`.

Plays the case n20 a few times, cluster start and verdict included, and prints the median of each
part and its share. The parts come from the run's own observations. Which of Kafka's timers a part
is spent on is said beside it.
"""

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.catalogue import entry_named, scenario_of
from kchaos.harness.run.runner import RunOptions, play

RUNS = 5
PARTS = {
    "start": "JVMs and class loading; ZooKeeper and the brokers side by side",
    "scenario": "replica.fetch.wait.max.ms (200) and the checkpoint interval (100)",
    "heal": "what is left of the ZooKeeper client's pause of up to 1 s before it reconnects",
    "settle": "replica.fetch.backoff.ms (200), the probe, two equal copies of the logs",
    "stop": "killing processes, copying evidence, checksums",
    "judge": "plain Python",
}


def main() -> None:
    """Plays, measures and prints."""
    release = sys.argv[1] if len(sys.argv) > 1 else "1.1.1"
    scenario = scenario_of(entry_named("KAFKA-6361"), "n20", release)
    seconds: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        options = RunOptions(runs_directory=Path(folder))
        play(scenario, options=options, say=lambda _: None)  # fills the caches
        for _ in range(RUNS):
            started = time.time()
            run = play(scenario, options=options, say=lambda _: None)
            played = time.time()
            results = judge(run)
            judged = time.time()
            assert results.expected, results.reason or results.unknown
            for part, took in _parts(run, started, played, judged).items():
                seconds[part].append(took)
    total = sum(median(took) for took in seconds.values())
    print(f"KAFKA-6361 n20 on {release}, median of {RUNS}: {total:.1f} s, the aim is 4.3 s")
    for part, spent_on in PARTS.items():
        took = median(seconds[part])
        print(f"{part:9} {took:5.2f} s  {took / total:4.0%}  {spent_on}")


def _parts(run: RunDirectory, started: float, played: float, judged: float) -> dict[str, float]:
    seen = list(run.read_lines("observations.jsonl"))
    first_step = next(observation["time"] for observation in seen if observation["kind"] == "step")
    acts = [observation["time"] for observation in seen if observation["kind"] == "act"]
    heals = [observation["time"] for observation in seen if observation["kind"] == "healed"]
    settled = run.read("snapshots/final/snapshot.json")["time"]
    healing = next(at for at in acts if at > max(t for t in acts if t < heals[0]) - 1e-9)
    return {
        "start": first_step - started,
        "scenario": healing - first_step,
        "heal": heals[-1] - healing,
        "settle": settled - heals[-1],
        "stop": played - settled,
        "judge": judged - played,
    }


if __name__ == "__main__":
    main()
