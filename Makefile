# make run   serve on 127.0.0.1:9092, data in ./.kmini-data
# make test  everything; Apache Kafka takes part where Java 17 and Maven are
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA_JARS := .peers/kafka/lib
WORKERS ?= auto
PACKAGING := pyproject.toml setup.py protocol/records/kernel.py

.DEFAULT_GOAL := help
.PHONY: help run test lint soak bench kafka-jars clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: $(VENV)/installed ## serve on 127.0.0.1:9092, data in ./.kmini-data
	$(BIN)/kmini serve --port 9092 --data-dir .kmini-data

test: $(VENV)/installed-test kafka-jars ## run the tests
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

lint: $(VENV)/installed-lint ## style, types, layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=.typing $(BIN)/lint-imports

soak: $(VENV)/installed-test ## the hostile-input figures at full count
	KMINI_SOAK=1 $(BIN)/python -m pytest tests/fuzz tests/crash -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

bench: $(VENV)/installed-test kafka-jars ## kmini beside Apache Kafka and other peers
	$(BIN)/python bench/compare.py $(BENCH_ARGS)

# Apache Kafka and its tools, 54 MB, by Maven; without java or mvn the tests that need them skip and say so.
kafka-jars:
	@if [ -e $(KAFKA_JARS)/.complete ]; then :; \
	elif command -v java >/dev/null && command -v mvn >/dev/null; then \
	  echo "fetching Apache Kafka's jars into $(KAFKA_JARS)"; \
	  mvn -q -B -f tests/peers/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA_JARS) \
	    && touch $(KAFKA_JARS)/.complete || echo "could not fetch Apache Kafka: the tests that need it will skip"; \
	else echo "no java or no mvn: the tests that need Apache Kafka will skip"; fi

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python $(PACKAGING)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/bin/python $(PACKAGING)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-lint: $(VENV)/bin/python $(PACKAGING)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test,lint]'
	@touch $@ $(VENV)/installed-test $(VENV)/installed

clean: ## remove what these commands made, data included
	rm -rf $(VENV) .peers .kmini-data build dist kmini.egg-info
