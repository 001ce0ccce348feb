# make run   serve on 127.0.0.1:9092, data in ./.kmini-data
# make test  everything; Apache Kafka takes part where Java 17 and Maven are
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA_JARS := .peers/kafka/lib
OLD_CLIENT := kafka-python-2.0.6
OBJECT_STORE := .peers/object-store
# The tests' files are kept in memory where there is room, so that a slow disk does not slow the tests.
TEST_TMP := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4194304 {print "/dev/shm"}')
TEST = $(if $(TEST_TMP),TMPDIR=$(TEST_TMP)) $(BIN)/python tests/run.py
PACKAGING := pyproject.toml setup.py protocol/records/layout.py $(wildcard protocol/records/kernels/*.p*) \
  $(shell grep -rl 'import cython_words as cython' --include='*.py' protocol storage broker)

.DEFAULT_GOAL := help
STAGES :=
.PHONY: help run test certain hammer setup programs fetched lint links wheel simulate docs soak bench curves kfake kafka-jars kafka-39-jars spark-jars old-client \
  control-clients group-clients registry-clients compose-model testcontainers object-store axe clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: $(VENV)/installed ## serve on 127.0.0.1:9092, data in ./.kmini-data
	$(BIN)/kmini serve --port 9092 --data-dir .kmini-data

test: setup ## run the tests: certain, sockets, programs (STAGES="certain sockets": these)
	$(TEST) $(STAGES) $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))

certain: $(VENV)/installed-test ## run what neither connects nor starts anything: a failure is a failure
	$(TEST) certain $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))

hammer: setup ## run FILES twenty times beside busy processes, as new and changed test files have to
	$(TEST) --hammer $(FILES) $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))

# All that the tests need, side by side.
setup: ; @$(MAKE) --no-print-directory -j4 $(VENV)/installed-test programs
programs: fetched spark-jars
fetched: kafka-jars old-client control-clients group-clients registry-clients compose-model

lint: $(VENV)/installed-lint ## style, types, layer contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=.typing $(BIN)/lint-imports
	$(BIN)/python .ci/lint.py
	$(BIN)/python .ci/lint_tests.py
	$(BIN)/python .ci/planted_defects.py --list >/dev/null
	$(BIN)/python docs/generate.py --check

links: $(VENV)/bin/python ## make the tree that type checkers see (.typing), after a folder came or went
	$(BIN)/python .ci/links.py

wheel: $(VENV)/bin/python ## dist/kmini-*.whl, for machines with this system and this Python: 40 s of processor time
	$(BIN)/python -m pip wheel -v --disable-pip-version-check --no-deps -w dist .

simulate: $(VENV)/installed-test ## play the histories of SEEDS (1-1000,10001-10300,20001-20300,30001-30150) of a cluster in trouble, and say which promises they break
	$(BIN)/python tests/simulate.py $(or $(SEEDS),1-1000,10001-10300,20001-20300,30001-30150)

docs: $(VENV)/installed ## write the pages that are read off the tables: docs/reference, docs/differences.md, config/
	$(BIN)/python docs/generate.py

soak: setup kafka-39-jars axe testcontainers object-store ## a thousand histories, what measures or draws its trouble at random, alone, and the planted defects
	.ci/tools
	$(BIN)/python tests/simulate.py 1-1000,10001-10300,20001-20300,30001-30150
	$(TEST) soak $(if $(PYTEST_ARGS),-- $(PYTEST_ARGS))
	$(BIN)/python .ci/planted_defects.py

bench: $(VENV)/installed-test kafka-jars kfake ## measure what README states, and write it there and to bench/RESULTS.md: ten minutes
	$(BIN)/python bench/measured.py $(BENCH_ARGS)

curves: $(VENV)/installed-test ## measure how the cost grows with connections, partitions, groups, consumers, logs, tasks of Spark, and write docs/performance.md: twenty minutes
	$(BIN)/python bench/curves.py $(CURVES_ARGS)

# kfake, the broker of the Go client franz-go, as a peer of the benchmarks.
kfake:
	@if [ -e .peers/kfake ]; then :; \
	elif command -v go >/dev/null; then mkdir -p .peers && cd bench/kfake && go build -o ../../.peers/kfake . || echo "could not build kfake: the benchmarks leave it out"; \
	else echo "no go: the benchmarks leave kfake out"; fi

# Apache Kafka, its tools and Kafka Streams, 56 MB, by Maven; without java or mvn the tests that need them skip and say so.
kafka-jars:
	@if [ -e $(KAFKA_JARS)/.complete-2 ]; then :; \
	elif command -v java >/dev/null && command -v mvn >/dev/null; then \
	  echo "fetching Apache Kafka's jars into $(KAFKA_JARS)"; \
	  mvn -q -B -f tests/support/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(KAFKA_JARS) \
	    && touch $(KAFKA_JARS)/.complete-2 || echo "could not fetch Apache Kafka: the tests that need it will skip"; \
	else echo "no java or no mvn: the tests that need Apache Kafka will skip"; fi

# The rules of accessibility that the tests of the page apply.
axe:
	@if [ -e .peers/axe/package/axe.min.js ]; then :; \
	elif command -v npm >/dev/null; then \
	  mkdir -p .peers/axe && cd .peers/axe && npm pack --silent axe-core >/dev/null && tar xzf axe-core-*.tgz package/axe.min.js \
	    || echo "could not fetch axe-core: the tests that need it will skip"; \
	else echo "no npm: the tests that need axe-core will skip"; fi

# The last release that serves clients from before record batches; only for the test that compares with it.
kafka-39-jars:
	@if [ -e .peers/kafka-3.9/lib/.complete ]; then :; \
	elif command -v java >/dev/null && command -v mvn >/dev/null; then \
	  mvn -q -B -f tests/support/pom.xml dependency:copy-dependencies -Dkafka.version=3.9.1 \
	    -DoutputDirectory=$(CURDIR)/.peers/kafka-3.9/lib \
	    && touch .peers/kafka-3.9/lib/.complete || echo "could not fetch Apache Kafka 3.9: the test beside it will skip"; \
	else echo "no java or no mvn: the test beside Apache Kafka 3.9 will skip"; fi

# The connector of the installed release of Spark, and its functions for Avro. Five jars, 10 MB.
spark-jars: $(VENV)/installed-test ## fetch Spark's Kafka connector and its Avro functions into the user's cache
	@$(BIN)/kmini pipeline jars >/dev/null || echo "no connector of Spark for Kafka: the tests that need it will skip"

# A client from before record batches, in a folder of its own beside the one that is installed.
old-client: $(VENV)/bin/python
	@[ -e .peers/$(OLD_CLIENT)/.complete ] \
	  || { $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade \
	         --target .peers/$(OLD_CLIENT) $(subst python-,python==,$(OLD_CLIENT)) \
	       && touch .peers/$(OLD_CLIENT)/.complete; } \
	  || echo "could not fetch $(OLD_CLIENT): the tests that need it will skip"

# Clients of a schema registry: Avro for Java and Confluent's client for Java, in three jars of 26 MB, and a program in Go
# with franz-go's and Confluent's.
REGISTRY_CLIENTS := $(CURDIR)/.peers/registry-clients
registry-clients:
	@if [ -e $(REGISTRY_CLIENTS)/.complete ]; then :; \
	elif command -v java >/dev/null && command -v mvn >/dev/null; then \
	  mvn -q -B -f tests/support/registry_clients.xml dependency:copy-dependencies -DoutputDirectory=$(REGISTRY_CLIENTS) \
	    && touch $(REGISTRY_CLIENTS)/.complete || echo "could not fetch the clients of a registry: the tests that need them will skip"; \
	else echo "no java or no mvn: the tests of a registry's clients for Java will skip"; fi
	@if command -v go >/dev/null; then \
	  cd tests/clients/registry_clients/go && go build -o $(REGISTRY_CLIENTS)/registry-client . \
	    || echo "could not fetch the clients of a registry for Go: the test that needs them will skip"; \
	else echo "no go: the test of a registry's clients for Go will skip"; fi

# A member of a consumer group in the new protocol, and a service with transactions of the second version, with the Go
# client franz-go; a reader with segmentio's kafka-go; secured producers with franz-go and sarama.
group-clients:
	@if command -v go >/dev/null; then \
	  cd tests/support/group_member_go && go build -o $(CURDIR)/.peers/group-clients/franz-go-member . \
	    && go build -o $(CURDIR)/.peers/group-clients/franz-go-transformer ./transformer \
	    || echo "could not fetch franz-go: the tests of its programs will skip"; \
	  cd $(CURDIR)/tests/support/kafka_go_reader && go build -o $(CURDIR)/.peers/group-clients/kafka-go-reader . \
	    || echo "could not fetch kafka-go: the test of its reader will skip"; \
	  cd $(CURDIR)/tests/support/secured_go && go build -o $(CURDIR)/.peers/group-clients/secured-go . \
	    || echo "could not fetch franz-go and sarama: the test of their security will skip"; \
	else echo "no go: the tests of programs in Go will skip"; fi

# Testcontainers' modules for Java, Go and Node, which start the image in the tests, unmodified.
TESTCONTAINERS := $(CURDIR)/.peers/testcontainers
MODULES := tests/support/docker/modules
testcontainers: ## fetch Testcontainers' modules, which tests/docker/test_real_modules.py runs: a minute
	@mkdir -p $(TESTCONTAINERS)/java $(TESTCONTAINERS)/node
	@[ -e $(TESTCONTAINERS)/java/.complete ] || ! command -v mvn >/dev/null \
	  || { mvn -q -B -f $(MODULES)/java/pom.xml dependency:copy-dependencies -DoutputDirectory=$(TESTCONTAINERS)/java \
	       && touch $(TESTCONTAINERS)/java/.complete; } || echo "could not fetch Testcontainers for Java: its tests will skip"
	@[ -e $(TESTCONTAINERS)/node/.complete ] || ! command -v npm >/dev/null \
	  || { cp $(MODULES)/node/package.json $(TESTCONTAINERS)/node/ \
	       && npm install --silent --no-audit --no-fund --prefix $(TESTCONTAINERS)/node && touch $(TESTCONTAINERS)/node/.complete; } \
	  || echo "could not fetch Testcontainers for Node: its tests will skip"
	@[ -e $(TESTCONTAINERS)/go ] || ! command -v go >/dev/null \
	  || (cd $(MODULES)/go && go build -o $(TESTCONTAINERS)/go .) || echo "could not fetch Testcontainers for Go: its tests will skip"

# An S3 server and Hadoop's client of it, 550 MB, for tests/pipeline/test_object_store.py. The versions are those of Spark's Hadoop.
object-store: $(VENV)/installed-test ## fetch an object store, in which a test keeps checkpoints of Spark: a minute
	@mkdir -p $(OBJECT_STORE)
	@[ -e $(OBJECT_STORE)/.complete ] || ! command -v mvn >/dev/null \
	  || { for artifact in org.apache.hadoop:hadoop-aws:3.4.1 software.amazon.awssdk:bundle:2.24.6; do \
	         mvn -q -B dependency:copy -Dartifact=$$artifact -DoutputDirectory=$(CURDIR)/$(OBJECT_STORE) || exit 1; done \
	       && $(PYTHON) -m venv $(OBJECT_STORE)/venv && $(OBJECT_STORE)/venv/bin/python -m pip install -q --disable-pip-version-check 'moto[server]>=5' \
	       && touch $(OBJECT_STORE)/.complete; } || echo "could not fetch the object store: its test will skip"

# The parser of docker compose, which reads the compose files in the tests.
compose-model:
	@if command -v go >/dev/null; then \
	  cd tests/support/docker/compose_model && go vet . || echo "could not fetch compose's parser: the tests that need it will skip"; \
	else echo "no go: the tests that need compose's parser will skip"; fi

# The clients of examples/control: Node's, whose package.json says which release, and Go's, compiled once into Go's cache.
control-clients:
	@if [ -e .peers/kafkajs/.complete ]; then :; \
	elif command -v npm >/dev/null; then \
	  mkdir -p .peers/kafkajs && cp examples/control/node/package.json .peers/kafkajs/ \
	    && npm install --silent --no-audit --no-fund --prefix .peers/kafkajs && touch .peers/kafkajs/.complete \
	    || echo "could not fetch kafkajs: the tests that need it will skip"; \
	else echo "no npm: the tests of the control API in Node will skip"; fi
	@if command -v go >/dev/null; then \
	  cd examples/control/go && go vet . || echo "could not fetch franz-go: the tests that need it will skip"; \
	else echo "no go: the tests of the control API in Go will skip"; fi

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python $(PACKAGING)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/bin/python $(PACKAGING)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-lint: $(VENV)/bin/python $(PACKAGING)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e '.[test,lint]'
	@touch $@ $(VENV)/installed-test $(VENV)/installed

clean: ## remove what these commands made, data included
	rm -rf $(VENV) .peers artifacts .kmini-data build dist kmini.egg-info
