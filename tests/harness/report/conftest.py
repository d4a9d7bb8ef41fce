"""The run directories of these tests are built by the builder of the checkers' tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "checkers"))
