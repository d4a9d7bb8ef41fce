"""Spark's daemon of Python workers on this machine: it has imported what its workers judge by.

Workers are forked from it. With Spark's own daemon each would import that by itself, which takes as
long as judging a dozen runs.
"""

import gc
import sys

# Spark puts pyspark as an archive before all else. Each start compiles what it imports from there,
# and each worker reads the archive's directory again. Where pip installed Spark, the same lies
# unpacked beside it.
_ARCHIVES = tuple(f"{folder}/pyspark/python/lib/" for folder in sys.path)
sys.path[:] = [path for path in sys.path if not path.startswith(_ARCHIVES)]

import pyarrow.parquet  # noqa: E402, F401 - for the workers
from pyspark.daemon import manager  # noqa: E402

import kchaos.checkers.spark.tasks  # noqa: E402, F401 - for the workers

if __name__ == "__main__":
    # No garbage collection of a worker looks at what was imported here, nor copies its pages.
    gc.freeze()
    manager()
