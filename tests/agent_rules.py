"""Byteman's own checker on every rule of the agent, for each release; `.ci/check` runs it.

Without a network: a release whose jars are not in the cache is named, and not checked. One whose
rules and jars are as they were when they were last accepted is not checked again.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kchaos.clusters.agent.byteman import GateAddress, Life, byteman_jar, script
from kchaos.clusters.agent.planted import PLANTED_BUGS
from kchaos.clusters.agent.points import POINTS, REMOTE_COPY_CHECKPOINT, REMOTE_READ, code_points
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import java_of, resolve
from kchaos.clusters.releases import TESTED_RELEASES, release_of
from kchaos.clusters.start.tiered import tiering_refused, with_tiered_storage

_ACCEPTED = Path("build/agent-rules")
_NO_STORE = ("4.2.2", "4.4.0")
"""Releases of which no jar with `LocalTieredStorage` is published."""


def rules_of(release: str) -> str:
    """All rules that a release has: of its points, and of the bugs that fit it."""
    known = release_of(release)
    points = {**POINTS, **{bug.name: bug for bug in PLANTED_BUGS.values()}}
    has = [name for name in code_points(points) if points[name].place(known) is not None]
    if release in _NO_STORE:
        has = [name for name in has if name not in (REMOTE_COPY_CHECKPOINT, REMOTE_READ)]
    life, gate = Life(broker=1, number=2), GateAddress(host="127.0.0.1", port=4711, token="t")
    return script(has, known, life, gate)


def refused(rules: str, release: str, *, offline: bool = False) -> list[str]:
    """The rules, by name, that are not of exactly one method of the release, or not well typed.

    Raises MachineError where something is not in the cache and must not be fetched.
    """
    kafka = resolve(release, offline=offline)
    if not tiering_refused(release_of(release), {}) and release not in _NO_STORE:
        kafka = with_tiered_storage(kafka, offline=offline)
    jars = [str(jar) for jar in (byteman_jar(offline=offline), *kafka.class_path)]
    key = hashlib.sha256("\n".join([rules, *jars]).encode()).hexdigest()
    if (_ACCEPTED / key).exists():
        return []
    java = java_of(kafka, offline=offline) / "bin" / "java"
    with tempfile.NamedTemporaryFile("w", suffix=".btm") as file:
        file.write(rules)
        file.flush()
        checker = ("-cp", ":".join(jars), "org.jboss.byteman.check.TestScript", "-v", file.name)
        flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        done = subprocess.run([java, *flags, *checker], capture_output=True, text=True, check=False)
    accepted = Counter(re.findall(r'^Type checked rule "(.+)"', done.stdout, re.M))
    wrong = [name for name in re.findall(r"^RULE (.+)$", rules, re.M) if accepted[name] != 1]
    if not wrong:
        _ACCEPTED.mkdir(parents=True, exist_ok=True)
        (_ACCEPTED / key).touch()
    return wrong


def _refused_offline(release: str) -> list[str] | None:
    try:
        return refused(rules_of(release), release, offline=True)
    except MachineError:
        return None


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(TESTED_RELEASES, pool.map(_refused_offline, TESTED_RELEASES), strict=True))
    unchecked = [release for release, wrong in found.items() if wrong is None]
    wrong_in = {release: wrong for release, wrong in found.items() if wrong}
    if unchecked:
        print(f"rules of the agent, NOT CHECKED, jars not in the cache: {', '.join(unchecked)}")
    for release, wrong in wrong_in.items():
        print(f"Kafka {release} does not take these rules of the agent: {', '.join(wrong)}")
    sys.exit(bool(wrong_in))
