"""The look-up of every rule in the source of every release.

    python -m tests.look_up.sources GIT_DIR

GIT_DIR is a clone of Kafka's repository, a bare one or the .git folder of a checkout, with its
tags. A release that has no tag there is read from the source jars that Kafka publishes, such as
org.apache.kafka:kafka_2.13:3.9.1:sources, under a folder in Maven's layout (`--jars`). The command
prints a table, compares it with the releases that each rule says, and ends with 1 where they
differ, with 2 where nothing could be looked up. With `--write` it also writes `compared.json`.
"""

import argparse
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model import releases
from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import LOOKED_UP, parse_version, runs
from tests.look_up.probes import PROBES, SourceLine, find

COMPARED_FILE = Path(releases.__file__).with_name("compared.json")

READ_BY_CLASS_FILES: Mapping[str, str] = {"4.4.0": "4.3.1"}
"""Releases without a source jar, each with the one that it is like in all that rules look into.

A person read each method that `class_files` shows to be changed. In 4.4.0 LogManager and
AlterPartitionManager are Java and do the same, what a closed log refuses has another name, and
records are limited once they are decompressed.
"""
_MODULES = {
    "core": ("kafka_2.13", "kafka_2.12"),
    "storage": ("kafka-storage",),
    "server": ("kafka-server",),
    "server-common": ("kafka-server-common",),
    "clients": ("kafka-clients",),
    "metadata": ("kafka-metadata",),
}
"""Which Maven artifacts have which of the repository's modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesRead:
    """Places of rules in Kafka's source, by release.

    Attributes:
        read_at: For each release that could be read, "tag", "source jar" or "class files".
        places: For each rule, the releases that have it, each with the place.
    """

    read_at: Mapping[str, str]
    places: Mapping[str, Mapping[str, SourceLine]]


def look_up(rules: Iterable[Rule], git_dir: Path, jars: Path | None) -> SourcesRead:
    """Return where each rule is in each release that can be read.

    Raises:
        ModelError: The folder is no git directory, git is missing, or a probe cannot be read.
    """
    rules = tuple(rules)
    paths = sorted({path for rule in rules for probe in PROBES[rule.name] for path in probe.paths})
    tagged = set(_git(git_dir, "tag", "--list").decode().split())
    read_at: dict[str, str] = {}
    places: dict[str, dict[str, SourceLine]] = {rule.name: {} for rule in rules}
    for release in LOOKED_UP:
        if release in tagged:
            texts = _tag_texts(git_dir, release, paths)
            read_at[release] = "tag"
        elif jars and (texts := _jar_texts(jars, release, paths)):
            read_at[release] = "source jar"
        elif (before := READ_BY_CLASS_FILES.get(release)) in read_at:
            read_at[release] = "class files"
            for found in places.values():
                if before in found:
                    found[release] = found[before]
            continue
        else:
            continue
        for rule in rules:
            place = find(PROBES[rule.name], texts)
            if place is not None:
                places[rule.name][release] = place
    return SourcesRead(read_at=read_at, places=places)


def differences(rules: Iterable[Rule], survey: SourcesRead) -> list[str]:
    """Return where what was found is not what the rules say, one sentence each."""
    said = []
    for rule in rules:
        places = survey.places[rule.name]
        for release in survey.read_at:
            declared = rule.releases.includes(parse_version(release))
            if declared and release not in places:
                said.append(f"{rule.name}: declared for {release}, and not in its source")
            elif not declared and release in places:
                said.append(
                    f"{rule.name}: in {release} at {places[release]}, and not declared for it"
                )
    return said


def table(survey: SourcesRead) -> str:
    """Return rules by releases as text: x where the rule was found, ? for what was not read."""
    width = max(map(len, survey.places), default=0)
    lines = [f"one column for each release from {LOOKED_UP[0]} to {LOOKED_UP[-1]}:"]
    for name, places in survey.places.items():
        marks = "".join(
            "?" if release not in survey.read_at else "x" if release in places else "."
            for release in LOOKED_UP
        )
        lines.append(f"{name:<{width}} {marks} {runs(tuple(places))}")
    return "\n".join(lines)


def _git(git_dir: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            ["git", f"--git-dir={git_dir}", *arguments],
            input=stdin,
            capture_output=True,
            check=True,
        )
    except FileNotFoundError as error:
        raise ModelError("git is not installed; it is needed to read Kafka's tags") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise ModelError(f"git {arguments[0]} on {git_dir} failed: {said}") from error
    return done.stdout


def _tag_texts(git_dir: Path, release: str, paths: Iterable[str]) -> dict[str, str]:
    paths = list(paths)
    asked = "".join(f"refs/tags/{release}:{path}\n" for path in paths).encode()
    answer = _git(git_dir, "cat-file", "--batch", stdin=asked)
    texts, at = {}, 0
    for path in paths:
        end = answer.index(b"\n", at)
        header = answer[at:end].split()
        at = end + 1
        if header[-1] != b"missing":
            size = int(header[-1])
            texts[path] = answer[at : at + size].decode(errors="replace")
            at += size + 1
    return texts


def _jar_texts(jars: Path, release: str, paths: Iterable[str]) -> dict[str, str]:
    texts = {}
    for path in paths:
        module, _, rest = path.partition("/src/main/")
        inside = rest.partition("/")[2]
        for artifact in _MODULES[module]:
            jar = jars / f"org/apache/kafka/{artifact}/{release}/{artifact}-{release}-sources.jar"
            if jar.is_file():
                with zipfile.ZipFile(jar) as archive:
                    if inside in archive.namelist():
                        texts[path] = archive.read(inside).decode(errors="replace")
    return texts


def compared(survey: SourcesRead) -> str:
    """Return what `status` reads, as JSON: how each release was read, who has each rule."""
    document = {
        "read_at": dict(survey.read_at),
        "found": {name: runs(tuple(places)) for name, places in survey.places.items()},
    }
    return json.dumps(document, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Look up, print, compare and, if asked, write; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.look_up.sources", description=__doc__)
    parser.add_argument("git_dir", type=Path, help="git directory of a clone of Kafka, with tags")
    parser.add_argument("--jars", type=Path, help="folder in Maven's layout with the source jars")
    parser.add_argument("--write", action="store_true", help="write compared.json anew")
    options = parser.parse_args(arguments)
    try:
        survey = look_up(EVERY_RULE, options.git_dir, options.jars)
    except ModelError as error:
        print(error, file=sys.stderr)
        return 2
    print(table(survey))
    unread = [release for release in LOOKED_UP if release not in survey.read_at]
    if unread:
        print(f"not read, no tag and no source jar: {', '.join(unread)}")
    said = differences(EVERY_RULE, survey)
    print("\n".join(said) or "what the rules declare is what the source has")
    if options.write and (said or unread):
        print("compared.json is not written: every release must be read and agree")
    elif options.write:
        COMPARED_FILE.write_text(compared(survey), encoding="utf-8")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
