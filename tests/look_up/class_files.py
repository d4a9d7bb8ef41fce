"""What changed between two releases in their class files: what a new release needs a look at.

    python -m tests.look_up.class_files RELEASE

Kafka publishes class files of every release, and not always a source jar. The command prints the
methods that changed of each class that rules look into, the rules whose probes look there, and the
newest versions of requests. Packages, outer classes and the numbers of lambdas are left out of the
comparison, so that a class that only moved is unchanged; so are methods that a compiler made.
`javap`, of a JDK, disassembles.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import fill

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import LOOKED_UP
from kchaos.clusters.errors import ClusterError
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.system.cache import cache_directory
from tests.look_up.probes import KAFKA_FILES, PROBES, Probe

Methods = Mapping[tuple[str, str], Counter[str]]
"""By simple name of the outermost class and name of the method, its code, lambdas with it."""

_CLASS = re.compile(r"(?:[a-z-]+ )*(?:class|interface|enum) (?:[\w$]+\.)*(\w+)")
_METHOD = re.compile(r"  \S.*?([\w$]+)\(.*;$")
_LAMBDA = re.compile(r"(?:\$anonfun|lambda)\$(\w+)\$")
_NOT_COMPARED = (
    (re.compile(r"^\s*\d+: |#\d+(, *\d+)?"), ""),
    (re.compile(r"\$\d+\b"), "$"),
    (re.compile(r"^((?:goto|if|jsr)\w*\s+|\s*(?:\d+|default): )\d+$"), r"\1"),
    (re.compile(r"^(\s+\d+){3}\s+(?=Class|any)"), ""),
    (re.compile(r"([\w$]+[/.])+(?=[\w$])"), ""),
    (re.compile(r"\b(?:[A-Z]\w*\$)+(?=[A-Z])"), ""),
)
"""Places in the code and in the table of constants, numbers of lambdas, packages, outer classes."""
_MADE_BY_COMPILER = re.compile(r"\$(?![A-Z])")
_REQUEST = re.compile(r"common/message/(\w+)Request\.json")
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


def methods(disassembled: str) -> Methods:
    """Return the methods of what `javap -c -p` says of some classes."""
    found: dict[tuple[str, str], list[list[str]]] = {}
    of_class = ""
    body: list[str] | None = None
    for line in disassembled.splitlines():
        if match := _CLASS.match(line):
            of_class, body = match[1], None
        elif match := _METHOD.match(line):
            of_lambda = _LAMBDA.match(match[1])
            body = []
            name = of_lambda[1] if of_lambda else match[1]
            found.setdefault((of_class, name), []).append(body)
        elif body is not None:
            for pattern, kept in _NOT_COMPARED:
                line = pattern.sub(kept, line)
            body.append(" ".join(line.split()))
    return {name: Counter("\n".join(body) for body in bodies) for name, bodies in found.items()}


def changed(before: Methods, after: Methods) -> dict[str, list[str]]:
    """Return by class the names of methods that are new, gone or have other code.

    Lambdas count as code of their method; what else a compiler made is left out.
    """
    found: dict[str, list[str]] = {}
    for of_class, name in sorted(before.keys() | after.keys()):
        if not _MADE_BY_COMPILER.search(name) and before.get((of_class, name)) != after.get(
            (of_class, name)
        ):
            found.setdefault(of_class, []).append(name)
    return found


def to_look_at(rules: Iterable[Rule], before: Methods, after: Methods) -> Iterator[str]:
    """Yield the names of rules with a probe in a method that changed, or that is gone.

    A probe of a whole file is concerned if its identifiers stand there more or less often.
    """
    names = changed(before, after)
    for rule in rules:
        if any(_is_concerned(probe, names, before, after) for probe in PROBES[rule.name]):
            yield rule.name


def _is_concerned(
    probe: Probe, names: Mapping[str, Collection[str]], before: Methods, after: Methods
) -> bool:
    classes = {Path(path).stem for path in probe.paths}
    if probe.within:
        methods_read = set(re.findall(r"\w+", probe.within))
        return any(methods_read & {*names.get(of_class, ())} for of_class in classes)
    words = set(re.findall(r"[A-Za-z]\w{3,}", (probe.present or "") + " " + (probe.absent or "")))
    return _uses(before, classes, words) != _uses(after, classes, words)


def _uses(found: Methods, classes: Collection[str], words: Collection[str]) -> Counter[str]:
    uses: Counter[str] = Counter()
    for (of_class, name), bodies in found.items():
        if of_class in classes:
            for text in (name, *bodies.elements()):
                uses.update(word for word in re.findall(r"\w+", text) if word in words)
    return uses


def methods_of(jars: Path, release: str) -> Methods:
    """Return the methods of a release, of the classes that rules look into.

    Raises:
        ModelError: There is no jar of the release, or no javap.
    """
    wanted = {Path(path).stem for paths in KAFKA_FILES.values() for path in paths}
    with tempfile.TemporaryDirectory() as folder:
        classes = []
        for jar in _jars(jars, release):
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    if re.split(r"[$.]", name.rpartition("/")[2])[0] in wanted:
                        classes += [archive.extract(name, folder)] * name.endswith(".class")
        command = ["javap", "-c", "-p", *classes]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise ModelError(f"javap of a JDK is needed to read class files: {error}") from error
    return methods(done.stdout)


def request_versions(jars: Path, release: str) -> dict[str, str]:
    """Return the versions of each request that a release knows, such as "4-18"."""
    versions = {}
    for jar in _jars(jars, release):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if match := _REQUEST.fullmatch(name):
                    document = json.loads(_COMMENT.sub("", archive.read(name).decode()))
                    versions[match[1]] = document["validVersions"]
    return versions


def _jars(jars: Path, release: str) -> list[Path]:
    found = sorted(jars.glob(f"org/apache/kafka/*/{release}/*-{release}.jar"))
    if not found:
        raise ModelError(f"no jar of Kafka {release} is below {jars}")
    return found


def _fetched(releases: Iterable[str]) -> Path:
    """Return the folder of the cache that has the jars of these releases."""
    for release in releases:
        resolve(release)
    return cache_directory() / "maven"


def main(arguments: list[str]) -> int:
    """Print what changed; return 0, or 2 where something could not be read."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.look_up.class_files", description=__doc__
    )
    parser.add_argument("release", help="the new one")
    parser.add_argument("--before", help="one whose rules are known; the newest of them, if left")
    parser.add_argument("--jars", type=Path, help="folder in Maven's layout, if not the cache")
    options = parser.parse_args(arguments)
    known = [release for release in LOOKED_UP if release != options.release]
    both = (options.before or known[-1], options.release)
    try:
        jars = options.jars or _fetched(both)
        before, after = (methods_of(jars, release) for release in both)
        versions, newer = (request_versions(jars, release) for release in both)
    except (ClusterError, ModelError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"what changed from {both[0]} to {both[1]}:")
    for of_class, names in changed(before, after).items():
        print(fill(f"{of_class}: {', '.join(names)}", 100, subsequent_indent="    "))
    for name in sorted(versions.keys() | newer.keys()):
        if versions.get(name) != newer.get(name):
            print(f"{name}Request: {versions.get(name, 'none')} to {newer.get(name, 'none')}")
    rules = ", ".join(to_look_at(EVERY_RULE, before, after)) or "none"
    print(fill(f"rules whose probes look at what changed: {rules}", 100, subsequent_indent="    "))
    print("next: CONTRIBUTING.md, A new release")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
