"""Byteman, the agent: its jar by package name, and the rules that it is given."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kchaos.clusters.agent.point import Place, Point
from kchaos.clusters.agent.points import point_of
from kchaos.clusters.kafka.distribution import own_jar
from kchaos.clusters.releases import Release
from kchaos.clusters.system.cache import write_private

COORDINATES = "org.jboss.byteman:byteman:4.0.24"
HELLO = "hello"
"""Greeting of a JVM at the gate before it begins: the agent works, and the gate is reachable."""
GO, SKIP = b"g", b"s"
SCRIPT = "agent.btm"

# Rules at the same place run in the order of the script, and after a call the other way about: the
# rule that leaves a method undone asks what the other was told.
_RULE = """\
RULE {name}
CLASS {java_class}
METHOD {method}
{where}
BIND gate:java.net.Socket = null;
     answer:int = 0
IF {when}
DO gate = new java.net.Socket("{host}", {port});
   gate.getOutputStream().write(({said}).getBytes("UTF-8"));
   answer = gate.getInputStream().read();
   gate.close(){then}
ENDRULE
"""
_REMEMBER = """;
   answer == {skip} ? flag(Thread.currentThread()) : clear(Thread.currentThread())"""
_SKIP_RULE = """\
RULE {name} left undone
CLASS {java_class}
METHOD {method}
{where}
IF clear(Thread.currentThread())
DO {instead}
ENDRULE
"""
_HELLO = Point(name=HELLO, meaning="the JVM begins", places=())
_MAIN = Place(since=(0,), java_class="kafka.Kafka$", method="main")
_COMPLAINT = re.compile(r"(?i)org\.jboss\.byteman|error (type ?checking|parsing|compiling)|\.btm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life of one broker; ``number`` counts its starts from 1."""

    broker: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GateAddress:
    """Where threads report, as the broker reaches it, and the token without which none is heard."""

    host: str
    port: int
    token: str


def byteman_jar(*, offline: bool = False) -> Path:
    """Return Byteman's jar, fetched on first use; it stands in a lock file of its own.

    Raises MachineError when it cannot be had.
    """
    version = COORDINATES.rpartition(":")[2]
    return own_jar(
        COORDINATES,
        file=f"byteman-{version}.jar",
        name="Byteman",
        folder=f"byteman/{version}",
        offline=offline,
    )


def script(points: Iterable[str], release: Release, life: Life, gate: GateAddress) -> str:
    """Return the rules for one life of a broker: a greeting, then one for each point.

    Raises ReleaseError as `point_of` does.
    """
    rules = [_rule(_HELLO, _MAIN, life, gate)]
    for name in points:
        point, place = point_of(name, release)
        rules.append(_rule(point, place, life, gate))
    return "\n".join(rules)


def _rule(point: Point, place: Place, life: Life, gate: GateAddress) -> str:
    """Return the text of one rule; what is said are seven fields with tabs between them."""
    known = f'"{gate.token}\\t{life.broker}\\t{life.number}\\t{point.name}\\t"'
    thread = "Thread.currentThread().getName()"
    fields = (known, thread, r'"\t"', "reader", r'"\t"', "seen", r'"\n"')
    instead = f"THROW {point.fails_with}" if point.fails_with else "RETURN" * point.can_skip
    where = "AT EXIT" if point.at_exit else "AT ENTRY"
    names = {
        "name": point.name,
        "java_class": place.java_class,
        "method": place.method,
        "where": f"AFTER INVOKE {place.after}" if place.after else where,
    }
    text = _RULE.format(
        **names,
        host=gate.host,
        port=gate.port,
        said=" + ".join(fields),
        when=place.when,
        then=_REMEMBER.format(skip=SKIP[0])
        if instead
        else f";\n   {place.does}" * bool(place.does),
    )
    bound = f"BIND reader:String = {place.reader};\n     seen:String = {place.seen};\n     gate:"
    text = text.replace("BIND gate:", bound)
    if not instead:
        return text
    undone = _SKIP_RULE.format(**names, instead=instead)
    return undone + text if place.after else text + undone


def complaints(console: Path) -> list[str]:
    """Return the lines in which Byteman complained of rules, oldest first."""
    if not console.is_file():
        return []
    lines = console.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.strip() for line in lines if _COMPLAINT.search(line) and "\tat " not in line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The agent of one broker: the jar, the points, and the gate."""

    jar: Path
    points: tuple[str, ...]
    gate: GateAddress

    def flags(self, release: Release, life: Life, directory: Path) -> list[str]:
        """Write the rules for one life of a broker into its folder; return the JVM's flags.

        Raises ReleaseError when the release lacks one of the points.
        """
        file = directory / SCRIPT
        write_private(file, script(self.points, release, life, self.gate))
        return [f"-javaagent:{self.jar}=script:{file}"]
