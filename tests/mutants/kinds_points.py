"""Changes to hits.jsonl: what a leader's own code says of its followers, which links saw too."""

import re

from tests.mutants.kinds import add
from tests.mutants.run_copy import Line


def _seen(name: str, pattern: str, by: int) -> None:
    def change(line: Line) -> None:
        def plus(match: re.Match[str]) -> str:
            return f"{match[1]}{int(match[2]) + by}"

        line["seen"] = re.sub(rf"({pattern})(-?\d+)", plus, line["seen"], count=1)

    add(f"points: {name}", lambda run: run.edit_line("hits.jsonl", change, _is_counted, "such hit"))


def _is_counted(line: Line) -> bool:
    return bool(line["fate"] == "told" and line["point"] == "fetch-counted")


_seen("a leader tells of another follower", r"replicaId=|ReplicaId: ", 50)
_seen("a leader counts another offset", r"logEndOffset(?:=|: )", 40)
_seen("a leader's clock is an hour late", "now=", 3_600_000)
_seen("a follower caught up in the future", r"lastCaughtUpTimeMs(?:=|: )", 3_600_000)
_seen("a follower fetched in the future", r"lastFetchTimeMs(?:=|: )", 3_600_000)
_seen("the leader's log ends far behind", r"lastFetchLeaderLogEndOffset(?:=|: )", 900)
