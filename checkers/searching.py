"""Searches a text for a regular expression that somebody else wrote, with a bound on the time.

Some expressions take longer than anybody waits, on a line that was made for them. A process of its
own can be ended; a thread cannot.
"""

import json
import subprocess
import sys
from collections.abc import Sequence

from kchaos.checkers.errors import ScenarioDataError

SEARCH_TIMEOUT_S = 20.0
"""Time of one expression over the logs of all brokers, in seconds."""

_MEMORY_BYTES = 1 << 30
# It imports the standard library alone: where this package comes from does not matter to it.
_PROGRAM = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_BYTES}, {_MEMORY_BYTES}))
pattern, *texts = json.load(sys.stdin)
try:
    expression = re.compile(pattern)
except (re.error, OverflowError, RecursionError) as error:
    print(json.dumps({{"error": str(error)}}))
    sys.exit()
lines = (line for text in texts for line in text)
found = next((line for line in lines if expression.search(line)), None)
print(json.dumps({{"found": found}}))
"""


def first_match(
    pattern: str, texts: Sequence[Sequence[str]], *, timeout_s: float = SEARCH_TIMEOUT_S
) -> str | None:
    """Return the first line that matches the pattern, text by text; None without a match.

    Raises:
        ScenarioDataError: It is no regular expression, or takes longer or more memory than it may.
    """
    place = f"scenario.json: witness pattern {pattern[:200]!r}"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            input=json.dumps([pattern, *texts]),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ScenarioDataError(
            f"{place} was searched for {timeout_s:g} s and no end was in sight: write one that "
            "does not repeat what repeats"
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ScenarioDataError(f"{place} could not be searched: {last}")
    said = json.loads(done.stdout)
    if "error" in said:
        raise ScenarioDataError(f"{place}: {said['error']}")
    line: str | None = said["found"]
    return line
