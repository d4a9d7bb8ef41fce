"""The agent: a broker's threads stop at named points of Kafka's code and ask the harness.

The agent is Byteman, loaded before Kafka's main class runs, and only for brokers whose spec names
points. Its rules are written out from the table of points for the broker's release, and each is
the same few lines: connect to the gate in the harness's process, say who has come where and what
was seen there, and wait for one byte.
"""

from kchaos.checkers.formats.point_hit import PointHit
from kchaos.clusters.agent.gate import Gate, PointHold
from kchaos.clusters.agent.point import Point
from kchaos.clusters.agent.points import POINTS, planted_refused, point_of, unknown_points

__all__ = [
    "POINTS",
    "Gate",
    "Point",
    "PointHit",
    "PointHold",
    "planted_refused",
    "point_of",
    "unknown_points",
]
