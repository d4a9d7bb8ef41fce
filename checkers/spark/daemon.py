"""Spark's daemon of Python workers on this machine: it has imported what its workers judge by.

Workers are forked from it. With Spark's own daemon each would import that by itself, which takes as
long as judging a dozen runs.
"""

import gc

import pyarrow.parquet  # noqa: F401 - likewise
from pyspark.daemon import manager

import kchaos.checkers.spark.tasks  # noqa: F401 - for the workers

if __name__ == "__main__":
    # No garbage collection of a worker looks at what was imported here, nor copies its pages.
    gc.freeze()
    manager()
