# What is run while working.
PYTHON ?= .venv/bin/python
PYTEST := $(PYTHON) -m pytest -q -n 2 --dist loadgroup
# A play waits for its cluster for much of its time: five of them leave 4 % of two cores idle.
PLAYS := $(PYTHON) -m pytest -q -n 5 --dist loadgroup
NO_JVM := not cluster and not spark and not docker
# Tests that change stored runs, or leave something of them out.
CHANGED := tests/mutants/test_mutants.py $(addprefix tests/checkers/model/,test_follow.py \
	test_isr_requests.py test_list_offsets.py test_left_out.py)
# Without compiled modules every process compiles the whole product and its tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: quick check test test-all cases night releases examples coverage semantic-mutants look-up

# No quick test draws examples, or looks at log records: the plugin for them goes through all loggers
# six times for each test.
quick: ## unit tests without the slow ones: under half a minute
	$(PYTEST) --dist worksteal -p no:hypothesispytest -p no:logging \
		-o tmp_path_retention_policy=failed -m "$(NO_JVM) and not slow"

check: ## style, types of product, tests and benchmarks, and who may import whom: under a minute
	PYTHON=$(PYTHON) .ci/check

test: check ## all that needs no cluster
	$(PYTEST) -m "$(NO_JVM)"

test-all: check ## all there is, as CI has it (.ci/run)
	$(PLAYS)

cases: ## each case on each of its releases; CI judges stored runs
	KCHAOS_ALL_CASES=1 $(PLAYS) tests/cases

# What an entry did tonight is added to what it did before: `kchaos list` says when it was last seen.
night: ## each entry, and each case on each of its releases, with new JVMs: hours
	mkdir -p build kchaos-runs
	rm -f build/night.jsonl
	-$(PYTHON) -m kchaos measure --runs 1 --driver local --results build/night.jsonl
	cat build/night.jsonl >>kchaos-runs/measurements.jsonl
	KCHAOS_DRIVER=local $(MAKE) cases

releases: ## each known release starts and serves, and threads are held on six; CI has a part
	KCHAOS_ALL_RELEASES=1 $(PLAYS) tests/clusters/start/test_releases_start.py \
		tests/clusters/start/test_kraft_cluster.py tests/faults/test_faults_on_releases.py \
		tests/faults/test_jvm_faults.py tests/clusters/agent/test_points.py

examples: ## all examples that tests of drawn acts, segments and types draw; CI has a third
	KCHAOS_ALL_EXAMPLES=1 $(PYTEST) tests/studies/explore/test_drawn_acts.py \
		tests/checkers/segments tests/mutants/test_damage.py -m "$(NO_JVM)"

coverage: ## lines and branches of the model that no stored run and no change of one goes through
	mkdir -p build
	COVERAGE_FILE=build/coverage $(PYTEST) -m "$(NO_JVM)" --cov kchaos.checkers.model --cov-branch \
		--cov-report term-missing:skip-covered --cov-fail-under 90 tests/golden tests/cases $(CHANGED)

semantic-mutants: ## conditions of the checkers changed one by one: hours; --number and --seed in ARGS
	$(PYTHON) -m tests.semantic_mutants $(ARGS)

look-up: ## what RELEASE=4.4.0 changes beside the newest known one: methods, rules, request versions
	$(PYTHON) -m tests.look_up.class_files $(RELEASE)

pages: ## the pages for people, in build/pages/; a link that leads nowhere is refused
	$(PYTHON) -m tests.built_pages
	$(PYTHON) -m mkdocs build --strict
