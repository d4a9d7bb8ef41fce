"""Names of settings that brokers of a release know, as their own configuration classes list them.

`broker_settings.toml` has the names that came with each release line, and those that went with it.
`python -m kchaos.clusters.start.broker_settings` writes it anew: each release prints its own table
(`kafka.server.KafkaConfig.main`), from which Kafka's documentation is made. Settings that Kafka
calls internal are in no such table; those that somebody may set stand here.
"""

import difflib
import re
import subprocess
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import java_of, resolve
from kchaos.clusters.releases import LINES, Release
from kchaos.clusters.spec import ClusterSpec

_FILE = Path(__file__).with_name("broker_settings.toml")
_INTERNAL = frozenset(
    {
        *("log.initial.task.delay.ms", "producer.id.expiration.check.interval.ms"),
        *("unstable.api.versions.enable", "unstable.feature.versions.enable"),
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.jitter",
    }
)
_PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.")
"""After these come names that Kafka does not list: of listeners, and of the plugins of a tier."""
# The table has had three forms: rows of a table, items of a list, headings with an anchor.
_NAMES = (
    re.compile(r'<a id="(?:brokerconfigs_)?([a-z0-9.]+)"'),
    re.compile(r"<li><b>([a-z0-9.]+)</b>"),
    re.compile(r"<tr>\s*<td>([a-z0-9.]+)</td>"),
)
# The last release of each line that has no release of its own in the table of releases.
_OTHERS = {
    **{"3.1": "3.1.2", "3.2": "3.2.3", "3.4": "3.4.1"},
    **{"3.5": "3.5.2", "3.7": "3.7.2", "3.8": "3.8.1"},
}


def unknown_setting(releases: Iterable[Release], name: str) -> str:
    """Return why brokers of none of these releases know a setting of that name, or ""."""
    known = _known()
    lines = {release.line.line: release for release in releases}
    if (
        name in _INTERNAL
        or name.startswith(_PREFIXES)
        or any(name in known[line] for line in lines)
    ):
        return ""
    knowing = [line for line, names in known.items() if name in names]
    oldest, shown = min(lines.values()), " and ".join(release.text for release in lines.values())
    if knowing:
        is_newer = tuple(map(int, knowing[0].split("."))) > oldest.number
        when = f"it came with {knowing[0]}" if is_newer else f"it went after {knowing[-1]}"
        return f"{shown} does not know the broker setting {name}: {when}"
    every = sorted(set().union(*(known[line] for line in lines)))
    near = difflib.get_close_matches(name, every, n=1)
    return f"no broker setting is named {name!r}" + (f": did you mean {near[0]}?" if near else "")


def misspelt(spec: ClusterSpec, releases: Mapping[int, Release]) -> str:
    """Return which setting of a cluster no broker knows that it is for, or "".

    A build in a folder may know more than its release: nothing is said of its settings.

    Args:
        spec: The cluster.
        releases: The release of each broker, by id.
    """
    every = [releases[broker.id] for broker in spec.brokers]
    if all(broker.kafka == releases[broker.id].text for broker in spec.brokers):
        for name in spec.properties:
            if unknown := unknown_setting(every, name):
                return unknown
    for broker in spec.brokers:
        release = releases[broker.id]
        for name in broker.properties if broker.kafka == release.text else ():
            if unknown := unknown_setting([release], name):
                return f"broker {broker.id}: {unknown}"
    return ""


@cache
def _known() -> Mapping[str, frozenset[str]]:
    """Return the names that brokers of each release line know, oldest line first."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    names: frozenset[str] = frozenset()
    known = {}
    for line in LINES:
        change = table[line.line]
        names = (names | {*change["new"].split()}) - {*change["gone"].split()}
        known[line.line] = names
    return known


def names_in(table: str) -> frozenset[str]:
    """Return the settings in a table that a broker's configuration class printed."""
    return next(
        (frozenset(names) for pattern in _NAMES if (names := pattern.findall(table))), frozenset()
    )


def _names_of(kafka: str) -> frozenset[str]:
    distribution = resolve(kafka)
    class_path = ":".join(map(str, distribution.class_path))
    java = str(java_of(distribution) / "bin" / "java")
    command = [java, "-cp", class_path, "kafka.server.KafkaConfig"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    names = names_in(done.stdout)
    if not names:
        raise MachineError(f"Kafka {kafka} lists no settings: {done.stderr[-500:]}")
    return names


def _text(of_lines: Iterable[tuple[str, frozenset[str]]]) -> str:
    text = "# Written by `python -m kchaos.clusters.start.broker_settings`.\n"
    before: frozenset[str] = frozenset()
    for line, names in of_lines:
        text += f'\n["{line}"]\n'
        for title, changed in (("new", names - before), ("gone", before - names)):
            listed = textwrap.fill(" ".join(sorted(changed)), 98, break_on_hyphens=False)
            is_short = len(listed) < 88 and "\n" not in listed
            text += f'{title} = "{listed}"\n' if is_short else f'{title} = """\n{listed}\n"""\n'
        before = names
    return text


if __name__ == "__main__":
    newest = {line.line: line.known[-1] if line.known else _OTHERS[line.line] for line in LINES}
    _FILE.write_text(_text((line, _names_of(kafka)) for line, kafka in newest.items()))
