# What is run while working. Two processes: most of the slow tests wait for clusters.
PYTHON ?= .venv/bin/python
PYTEST := $(PYTHON) -m pytest -q -n 2 --dist loadgroup
NO_JVM := not cluster and not spark and not docker
# Without compiled modules every process compiles the whole product and its tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: quick check test test-all coverage

quick: ## unit tests without the slow ones: under half a minute
	$(PYTEST) --dist worksteal -m "$(NO_JVM) and not slow"

check: ## style, types of product, tests and benchmarks, and who may import whom: under a minute
	PYTHON=$(PYTHON) .ci/check

test: check ## all that needs no cluster
	$(PYTEST) -m "$(NO_JVM)"

test-all: check ## all there is, as CI has it (.ci/run)
	$(PYTEST)

coverage: ## lines of the model by module, over its tests and the stored golden runs
	$(PYTEST) -m "$(NO_JVM)" --cov kchaos.checkers.model --cov-branch --cov-report term \
		tests/checkers/model tests/golden
