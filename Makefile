# One command per task. `make test` on a fresh clone sets up everything that pip can install.
# Options: PYTHON=python3.12 (when .venv is created), ARGS="-k laws" (passed on to the command).

PYTHON ?= python3
comma := ,
VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.stamp-dev
BENCH := $(VENV)/.stamp-bench
SERVERS := $(VENV)/.stamp-servers
DOCS := $(VENV)/.stamp-docs
NOTEBOOKS := $(VENV)/.stamp-notebooks
# Versions of Spark beside the newest, which `make test` runs on, and the versions of Python that they are tested with where
# this machine has them.
VERSIONS := 4.0 4.1 4.2
PYTHON_OF_4.0 := 3.11
PYTHON_OF_4.1 := 3.12
PYTHON_OF_4.2 := 3.13
on = PYSPARK_PYTHON=$(CURDIR)/.venv-$(1)/bin/python PYSPARK_DRIVER_PYTHON=$(CURDIR)/.venv-$(1)/bin/python \
	.venv-$(1)/bin/python -m pytest
ARGS ?=

export PYTHON
# Spark starts its Python workers with this one: they must find the same packages as the driver.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

.DEFAULT_GOAL := help
.PHONY: help requirements venv test test-slow test-long test-site test-notebooks test-real test-kafka test-postgres \
	test-serving test-connect test-pipelines test-fraud test-examples test-delta test-iceberg test-servers test-versions lint format wheel release-check demo bench-quick bench bench-public soak docs docs-written docs-test docs-release clean

help: ## list the tasks
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1  \2/p' Makefile | awk '{t = $$1; sub(/^[^ ]+ +/, ""); printf "make %-14s %s\n", t, $$0}'

requirements: ## check for Python and Java
	@bash .ci/requirements.sh

# The version of pip that comes with Python 3.11 has no --group (25.1 has), so pip itself comes first.
$(DEV): pyproject.toml | requirements
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[spark]" --group dev
	@touch $@

$(BENCH): $(DEV)
	$(BIN)/python -m pip install --quiet --group bench
	@touch $@

$(SERVERS): $(DEV)
	$(BIN)/python -m pip install --quiet --group servers
	@touch $@

$(DOCS): $(DEV)
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

$(NOTEBOOKS): $(DEV)
	$(BIN)/python -m pip install --quiet --group notebooks
	@touch $@

venv: $(DEV) ## create .venv, or renew it when pyproject.toml has changed

# A test on Spark leaves a third of two cores idle: so there is a third process. Files stay in the order of tests/conftest.py.
test: $(DEV) ## all tests but the long ones, in three processes
	$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: $(DEV) ## the slow tests, which `.ci/run` runs too: what they show is shown by quicker ones, less broadly
	$(BIN)/python -m pytest -m "slow and not long" --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-long: $(DEV) ## the long tests only, in three processes
	$(BIN)/python -m pytest -m long --numprocesses 3 --dist worksteal $(ARGS)

# Each in a process of its own: they need sessions that differ.
test-kafka: $(SERVERS) ## Kafka to windows to Kafka, on a broker from Maven's artifacts
	$(BIN)/python -m pytest -m servers -rs tests/servers/test_kafka.py $(ARGS)

test-postgres: $(SERVERS) ## a table in PostgreSQL that a stream keeps up to date
	$(BIN)/python -m pytest -m servers -rs tests/servers/test_postgres.py $(ARGS)

test-serving: $(SERVERS) ## served slices in PostgreSQL and Redis
	$(BIN)/python -m pytest -m servers -rs tests/serving/test_stores.py tests/servers/test_serving.py $(ARGS)

test-connect: $(SERVERS) ## bounded input and a stream over Spark Connect
	$(BIN)/python -m pytest -m servers -rs tests/servers/test_connect.py $(ARGS)

test-pipelines: $(SERVERS) ## the template of a declarative pipeline, run twice
	$(BIN)/python -m pytest -m servers -rs tests/servers/test_pipelines.py $(ARGS)

test-fraud: $(SERVERS) ## the repository in examples/fraud, with Kafka and PostgreSQL
	$(BIN)/python -m pytest -m servers -rs tests/servers/test_fraud.py $(ARGS)

test-examples: $(SERVERS) ## the own tests of the repositories in examples, with a service, Chromium and scikit-learn
	$(BIN)/python -m pytest -m "slow or not slow" -rs tests/servers/test_examples.py $(ARGS)

# For these tables there are jars for one version of Spark each.
test-delta: .venv-4.2/.stamp ## tables of Delta Lake at both ends of a query
	$(call on,4.2) -m servers -rs tests/servers/test_tables.py $(ARGS)

test-iceberg: .venv-4.1/.stamp ## tables of Apache Iceberg at both ends of a query
	$(call on,4.1) -m servers -rs tests/servers/test_tables.py $(ARGS)

test-servers: test-kafka test-postgres test-serving test-connect test-pipelines test-fraud test-examples test-delta test-iceberg ## all nine; what cannot be had is skipped, with the reason

# 4.0 is older than what the extra allows; it takes any protobuf since 5.28.
.venv-%/.stamp: pyproject.toml | requirements
	$$(bash .ci/python.sh $(PYTHON_OF_$*)) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(@D)/bin/python -m pip install --quiet --group test "pyspark==$*.*" \
		$(if $(filter 4.0,$*),--editable . "pandas>=2.2$(comma)<3" "protobuf>=6.33.5$(comma)<8",--editable ".[spark]")
	@touch $@

test-spark-%: .venv-%/.stamp
	$(call on,$*) -m "versions and not long" --numprocesses 3 --dist loadfile --no-loadscope-reorder \
		$$(grep -rl "mark.versions" tests --include="test_*.py") $(ARGS)

test-versions: $(VERSIONS:%=test-spark-%) ## the tests that may differ on other versions of Spark, on each
.PRECIOUS: .venv-%/.stamp

lint: $(DEV) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV) ## fix and lay out the code as far as ruff can; `make lint` says the rest
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

wheel: $(DEV) ## build the sdist and the wheel, run the quickstart from them in a fresh environment
	@PYTHON=$(CURDIR)/$(BIN)/python bash .ci/wheel.sh

release-check: wheel docs ## what a release needs beside the tests: packages, site, changelog
	$(BIN)/python -m pytest -q tests/repository/test_release.py

demo: $(DEV) ## a small stream, end to end
	$(BIN)/python -m benchmarks.demo $(ARGS)

bench-quick: $(BENCH) ## a few benchmarks
	$(BIN)/python -m benchmarks.run --quick $(ARGS)

bench: $(BENCH) ## all benchmarks, for hours, going on where it was stopped; writes docs/performance
	$(BIN)/python -m benchmarks.run --all --resume --write $(ARGS)

bench-public: $(BENCH) ## Nexmark, Theodolite and OSPBench, for an hour, going on where it was stopped
	$(BIN)/python -m benchmarks.public --resume $(ARGS)

soak: $(BENCH) ## an hour of a stream that is killed every two minutes, compared with brute force
	$(BIN)/python -m benchmarks.soak $(ARGS)

docs: $(DOCS) docs-written ## write tables and pictures, build the site in build/site, strict about links
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --clean

docs-written: $(DEV) ## write the tables and pictures of the docs
	$(BIN)/python -m docs.tables
	$(BIN)/python -m docs.pictures

docs-test: docs-written ## write them, and run every code block of README and docs
	$(BIN)/python -m pytest -m "not long" tests/repository/test_docs.py $(ARGS)

docs-release: $(DOCS) docs-written ## put the site of VERSION=0.2 on the branch gh-pages, beside those of other tags
	NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/mike deploy --update-aliases $(VERSION) latest

test-site: docs ## open the site in headless Chromium (Debian: apt-get install chromium)
	$(BIN)/python -m pytest -m browser tests/repository/test_site.py $(ARGS)

test-notebooks: $(NOTEBOOKS) ## run docs/notebooks
	$(BIN)/python -m pytest -m notebooks tests/repository/test_notebooks.py $(ARGS)

test-real: $(DEV) ## data that others measured, from packages on PyPI, with DuckDB as the judge
	$(BIN)/python -m pytest -m real -rs tests/real $(ARGS)

clean: ## remove .venv and everything generated
	rm -rf $(VENV) $(VERSIONS:%=.venv-%) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log
	find slicing combinators tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
