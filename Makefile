# Everything a person does with this repository. Each target installs what it needs by itself.
ifneq ($(shell uname -s),Linux)
$(error winpool is built and tested on Linux, and this is $(shell uname -s): use a Linux machine or VM, or the devcontainer in .devcontainer)
endif
# Since GNU make 4. What Apple brings is 3.81.
ifeq ($(filter output-sync,$(.FEATURES)),)
$(error winpool needs GNU make 4 or newer, and this is $(MAKE_VERSION): install the package make, and call it by its path or as gmake)
endif

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Where make up keeps its cluster; .testbed if it is empty. make down ends the cluster there, or the one that runs if it is empty.
DEMO_DIR ?=
# What tests took, one by one, in a file for each run of pytest (JUnit XML).
RESULTS ?= .results
# Two for each core, since tests also wait, and as fit into memory, 2.5 GiB for each: a control plane with nodes, operator
# and tests took 1.3 GiB, and some tests start a second one. With three for each core single tests miss their deadlines.
WORKERS ?= $(shell awk -v most=$$((2 * $$(nproc))) '/^MemAvailable/ {fit = int($$2 / 2621440)} \
  END {print fit < 1 ? 1 : fit < most ? fit : most}' /proc/meminfo)

# Many container images set this. Without byte code each process of a test run compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install quick check test test-newest test-oldest test-crash breaks demo up down generate lock format

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Install everything for Python into .venv

$(INSTALLED): requirements/dev.txt pyproject.toml tests/testbed/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "winpool needs Python 3.11 or newer; select one with: make PYTHON=python3.12 …" >&2; exit 1; }
	@test -x $(BIN)/python || $(patiently) "Creating $(VENV)" $(PYTHON) -m venv $(VENV) || \
	  { echo "python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@command -v git >/dev/null || { echo "winpool's tests need git; install the package git" >&2; exit 1; }
	@$(patiently) "Installing Python packages into $(VENV)" $(pip) --require-hashes -r requirements/dev.txt || \
	  { echo "pip could not install the packages: check the network, or set an index with PIP_INDEX_URL" >&2; exit 1; }
	@$(patiently) "Installing winpool into $(VENV)" $(pip) --no-deps --no-build-isolation -e . -e tests/testbed
	@touch $@

# Both are silent for up to a minute. This says every few seconds that they go on.
patiently = $(PYTHON) -I tests/testbed/patience.py
pip = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off

# How many examples property tests try: "first" is a quarter of "ci", "few" a tenth, for those who wait.
PROPERTIES ?= first
quick: PROPERTIES := few
at_once = HYPOTHESIS_PROFILE=$(PROPERTIES) $(MAKE) --no-print-directory --jobs=2 --output-sync=target

quick: $(INSTALLED) ## While you work: lint, types, import rules, the unit tests that are not slow (about a minute)
	@$(at_once) quick-unit check-types check-lint check-imports

check: $(INSTALLED) ## The fast half: lint, types, import rules, generated files, unit tests (three to four minutes)
	@$(at_once) check-types check-unit check-lint check-imports

.PHONY: quick-unit check-types check-unit check-lint check-imports test-unit test-alerts test-cluster
UNIT_WORKERS := 2
unit = $(BIN)/pytest -q -n $(UNIT_WORKERS) --dist worksteal --junitxml=$(RESULTS)/unit.xml tests/unit
# asyncio's debug mode takes a quarter of the time of the unit tests: make quick does without.
ASYNCIO_DEBUG := --asyncio-debug
quick-unit: $(INSTALLED)
	@$(unit) -m "not slow and not kubectl"
check-types: $(INSTALLED)
	@$(BIN)/mypy
check-unit: $(INSTALLED)
	@$(unit) $(ASYNCIO_DEBUG) -m "not kubectl"
check-lint: $(INSTALLED)
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
check-imports: $(INSTALLED)
	@$(BIN)/lint-imports | tail -n 2

# The cheap ones first. The tests on a control plane wait for a third of their time: the unit tests run beside them, and give way.
test: $(INSTALLED) ## Before a push: lint, types, import rules, alerts, the unit tests, those on a real control plane but the nightly ones
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.promtool
	@$(BIN)/python -m testbed.prometheus
	@HYPOTHESIS_PROFILE=$(PROPERTIES) $(MAKE) --no-print-directory --jobs=1 --keep-going \
	  check-lint check-imports check-types test-alerts test-side-by-side

# What the unit tests print follows what the others print. With a niceness of 5 they have a quarter of a core that is full.
.PHONY: test-side-by-side
test-side-by-side: $(INSTALLED)
	@mkdir -p $(RESULTS); failed=0; \
	  nice -n 5 $(MAKE) --no-print-directory test-unit UNIT_WORKERS=1 > $(RESULTS)/unit.log 2>&1 & unit=$$!; \
	  $(MAKE) --no-print-directory test-cluster || failed=1; \
	  wait $$unit || failed=1; \
	  cat $(RESULTS)/unit.log; exit $$failed

# What make test runs, and people seldom alone.
test-unit: $(INSTALLED)
	@$(unit) $(ASYNCIO_DEBUG)
test-alerts: $(INSTALLED)
	@$(BIN)/pytest -q --junitxml=$(RESULTS)/alerts.xml tests/alerts
test-cluster: $(INSTALLED)
	@$(call cluster,cluster) -m "not long and not nightly" --durations=25 tests/cluster

# Go's own 100 has a control plane that starts, and each kubectl, spend a quarter of their time on garbage.
test-cluster test-newest test-oldest test-memory test-crash: export GOGC ?= 400

# On a control plane that stands already; the word is the name of the file of results.
cluster = $(BIN)/pytest -q $(ASYNCIO_DEBUG) -n $(WORKERS) --dist loadgroup --junitxml=$(RESULTS)/$(1).xml

test-newest: $(INSTALLED) ## The tests on a control plane that take 6 s and more, or show what a unit test shows
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.prometheus
	@$(call cluster,newest) -m "nightly and not long" tests/cluster

# The oldest Kubernetes that is supported; pins for it lie in tests/testbed/controlplane.
OLDEST := 1.32
test-oldest: export WINPOOL_KUBERNETES := $(OLDEST)
test-oldest: $(INSTALLED) ## The tests on a control plane, with the oldest supported Kubernetes
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.prometheus
	@$(call cluster,oldest) -m "not long" tests/cluster

test-memory: $(INSTALLED) ## Memory pressure on simulated nodes, from the first sample to the eviction and the end of it
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.prometheus
	@$(call cluster,memory) -m long tests/cluster

test-crash: $(INSTALLED) ## The long loops: the operator killed at every write, long outages
	@$(BIN)/python -m testbed build
	@$(call cluster,crash) tests/crash

.PHONY: explore nightly test-benches
# A seed that was printed, and how many worlds: make explore SEED=4711 WORLDS=1000.
SEED ?=
WORLDS ?= 100000
explore: $(INSTALLED) ## Property tests, quiet worlds and rollouts from a random seed, many more of each; failing examples are kept
	@$(BIN)/python tests/nightly/explore.py --seed "$(SEED)" --worlds $(WORLDS)

test-benches: $(INSTALLED) ## The short benches of docs/benchmarks.md: they run, and miss no count
	@$(BIN)/python -m testbed build
	@$(BIN)/pytest -q tests/nightly

# IMAGE, REPOSITORY and DOCS. BASE: another base than the Dockerfile names, for a release with its digest.
include deploy/release.env
TAG ?= $(shell sed -n 's/^__version__.*"\(.*\)"/\1/p' operator/winpool/__init__.py)
BASE ?=
PLATFORM ?=
.PHONY: image image-layout test-image test-release sbom audit
image: ## Build the container image with docker, podman or buildah: IMAGE=… TAG=… BASE=…
	@$(PYTHON) image/builder.py $(built)

# JOIN: layouts of one architecture each, to put together instead of building: make image-layout JOIN="amd64 arm64".
JOIN ?=
image-layout: ## Build the image with buildah into DIST=dist, as make release takes it: PLATFORM=… BASE=…, or JOIN=…
	@$(PYTHON) image/layout.py $(built) $(if $(JOIN),--join $(JOIN) --) "$(DIST)/image"

built = --name "$(IMAGE):$(TAG)" --version "$(TAG)" --base "$(BASE)" --platform "$(PLATFORM)" --source "$(REPOSITORY)" \
  --revision "$$(git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || echo unknown)"

# A guard for one test. The first one waits until the image is built, which takes some minutes.
BUILD_SECONDS := 3600
test-image: export WINPOOL_IMAGE_BASE := $(BASE)
test-image: $(INSTALLED) ## Build the image and run it, read-only, through the life of a pool (root, buildah, crun)
	@$(BIN)/python tests/image/needs.py test-image
	@$(BIN)/python -m testbed build
	@$(BIN)/pytest -q --timeout=$(BUILD_SECONDS) --ignore=tests/image/test_release.py tests/image

# In an environment of its own: nothing else needs a package index.
PACKAGES := .venv-index
$(PACKAGES)/.installed: requirements/index.txt
	@test -x $(PACKAGES)/bin/python || $(PYTHON) -m venv $(PACKAGES)
	@echo "Installing Python packages into $(PACKAGES)"
	@$(PACKAGES)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $< || \
	  { echo "pip could not install the packages: check the network, or set an index with PIP_INDEX_URL" >&2; exit 1; }
	@touch $@

test-release: export WINPOOL_IMAGE_BASE := $(BASE)
test-release: $(INSTALLED) $(PACKAGES)/.installed ## Make a release, push, sign and verify it, and install it on a real control plane without a checkout (root)
	@$(BIN)/python tests/image/needs.py test-release
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.helm
	@$(BIN)/python -m testbed.cosign
	@$(BIN)/pytest -q --timeout=$(BUILD_SECONDS) tests/image/test_release.py

# A guard for one test. Some install and upgrade several times, and wait for the replicas each time.
CHART_SECONDS := 1200
.PHONY: test-chart
test-chart: $(INSTALLED) ## Build helm, compare the chart with the kustomization, and install it on a real control plane
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.helm
	@$(BIN)/pytest -q --timeout=$(CHART_SECONDS) tests/chart

# A guard for one test. The first one waits until pip has downloaded the packages for each system and each Python.
PLUGIN_SECONDS := 1800
.PHONY: test-plugin
test-plugin: $(INSTALLED) ## Make the wheel and the archives of the plugin, and install them with pip and krew on each Python that is here
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.krew
	@$(BIN)/pytest -q --timeout=$(PLUGIN_SECONDS) tests/plugin

# In an environment of their own, so that their many dependencies are not those of the tests.
AUDIT := .venv-audit
$(AUDIT)/.installed: requirements/audit.txt
	@$(PYTHON) -m venv $(AUDIT)
	@echo "Installing Python packages into $(AUDIT)"
	@$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt || \
	  { echo "pip could not install the packages: check the network, or set an index with PIP_INDEX_URL" >&2; exit 1; }
	@touch $@

SBOM ?= $(RESULTS)/sbom.cdx.json
sbom: $(AUDIT)/.installed ## Write a software bill of materials of what the operator runs on (CycloneDX) into SBOM=…
	@mkdir -p $(dir $(SBOM))
	@PYTHONWARNINGS=ignore $(AUDIT)/bin/cyclonedx-py requirements requirements/run.txt --pyproject pyproject.toml \
	  --output-reproducible --validate --output-file $(SBOM)
	@echo "written: $(SBOM)"

# --strict: a package of which nothing could be read fails it too, instead of passing as one without vulnerabilities.
audit: $(AUDIT)/.installed ## Ask for known vulnerabilities of what the operator runs on; needs the advisories of PyPI
	@$(AUDIT)/bin/pip-audit --requirement requirements/run.txt --require-hashes --disable-pip --strict \
	  --progress-spinner off || { echo "make audit failed. If packages are listed above, they have known" \
	  "vulnerabilities: pin newer versions, then make lock. Otherwise the advisories of PyPI could not be read:" \
	  "run it where they can" >&2; exit 1; }

# In an environment of its own, since the tests need nothing of it.
SPHINX := .venv-docs
$(SPHINX)/.installed: requirements/docs.txt
	@test -x $(SPHINX)/bin/python || $(PYTHON) -m venv $(SPHINX)
	@echo "Installing Python packages into $(SPHINX)"
	@$(SPHINX)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $< || \
	  { echo "pip could not install the packages: check the network, or set an index with PIP_INDEX_URL" >&2; exit 1; }
	@touch $@

# A site has a folder for each version. A warning fails the build: a broken link is one, and a page that no list names.
SITE := dist/site
site = PYTHONPATH=operator:tests:tools WINPOOL_DOCS_VERSION=$(TAG) $(SPHINX)/bin/sphinx-build --quiet --fresh-env --jobs auto \
  --fail-on-warning --keep-going --doctree-dir $(RESULTS)/docs
.PHONY: docs test-docs docs-links
docs: $(SPHINX)/.installed ## Build the pages as a site with search, dist/site, and check every link inside of it: TAG=…
	@rm -rf $(SITE)/$(TAG)
	@$(site) docs $(SITE)/$(TAG)
	@PYTHONPATH=operator:tests:tools $(SPHINX)/bin/python -m pages.versions $(SITE)
	@echo "written: $(SITE)/$(TAG)/index.html"

test-docs: $(INSTALLED) docs ## The site, as make docs built it: each page can be reached, and a runbook is where its alert says
	@$(BIN)/pytest -q tests/docs

docs-links: $(SPHINX)/.installed ## Ask for every link of the pages to other sites; needs the internet
	@$(site) -b linkcheck docs $(RESULTS)/docs-links

# Which of them: make nightly PARTS="crash explore".
PARTS ?=
nightly: $(INSTALLED) ## The tests of an hour and more: test-crash, breaks, test-memory, test-newest, test-oldest, explore, test-benches, bench-pressure-nightly, test-image, test-release, test-chart, test-plugin, lint-manifests, sbom, test-docs; all run
	@$(BIN)/python tests/nightly/__main__.py --make "$(MAKE)" $(PARTS)

# In an environment of its own, since checkov has a hundred dependencies.
LINTER := .venv-manifests
$(LINTER)/.installed: requirements/manifests.txt
	@test -x $(LINTER)/bin/python || $(PYTHON) -m venv $(LINTER)
	@echo "Installing Python packages into $(LINTER)"
	@$(LINTER)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $< || \
	  { echo "pip could not install the packages: check the network, or set an index with PIP_INDEX_URL" >&2; exit 1; }
	@touch $@

.PHONY: lint-manifests release publish
lint-manifests: $(INSTALLED) $(LINTER)/.installed ## Check deploy and its overlays with checkov; each exception has its reason in the manifest
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m release.rendered $(RESULTS)/manifests
	@$(LINTER)/bin/checkov --directory $(RESULTS)/manifests --framework kubernetes --quiet --compact --skip-download

# IMAGE and DIGEST: of an image that is pushed already. Without DIGEST it is the one in DIST.
# LOCAL=1: whatever would keep it from being published is only named.
DIST ?= dist
DIGEST ?=
LOCAL ?=
release: $(INSTALLED) ## Write all of a release that needs no registry into DIST=dist: manifests, chart, wheel, plugin, notes, sums
	@echo "Finding the kubectl that renders the manifests, or building it"
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m release --image "$(IMAGE)" --digest "$(DIGEST)" $(if $(LOCAL),--local) "$(DIST)"
	@$(patiently) "Writing the bill of materials" $(MAKE) --no-print-directory sbom SBOM="$(DIST)/sbom.cdx.json"
	@echo "Writing the checksums"
	@$(BIN)/python -m release.packing "$(DIST)"

# KEY: a private key of cosign. Without one, cosign asks who you are and signs by that: in a workflow, it knows.
INDEX ?= https://upload.pypi.org/legacy/
KEY ?=
publish: $(INSTALLED) ## Sign what make release has written, and push image, chart and wheel: INDEX=… KEY=…
	@$(BIN)/python -m testbed.helm
	@$(BIN)/python -m testbed.cosign
	@$(BIN)/python -m release.publish --image "$(IMAGE)" --index "$(INDEX)" --key "$(KEY)" $(if $(LOCAL),--local) "$(DIST)"

breaks: $(INSTALLED) ## Break each promise on purpose, and check that its test fails
	@$(BIN)/python -m testbed build
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m breaks --workers $(WORKERS)

# 130: Ctrl-C ended it, and it has said so. That is no failure to make.
demo: $(INSTALLED) ## Show every feature on a real control plane, step by step, then stop
	@$(BIN)/python -m demo || test $$? -eq 130

up: $(INSTALLED) ## Start a cluster with Windows nodes and the operator, and leave both running
	@$(BIN)/python -m demo up $(DEMO_DIR:%=--dir %) || test $$? -eq 130

down: $(INSTALLED) ## Stop what `make up` started
	@$(BIN)/python -m demo down $(DEMO_DIR:%=--dir %) || test $$? -eq 130

# Further choices of a bench as variables: make bench-contract N=5000 STEADY_SECONDS=60. See docs/benchmarks.md.
N ?= 1000
PODS ?= 0
POD_PASS_SECONDS ?= 0
ROUNDS ?= 5
STEADY_SECONDS ?= 600
DRIFTS ?= 100
SIZES ?= 1000 5000
IDLE_SECONDS ?= 60
LABELS ?= 20000
WRITES ?= 10
POLL_SECONDS ?= 60
BENCH_DIR ?=
bench = PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m bench $(if $(BENCH_DIR),--directory $(abspath $(BENCH_DIR)))

# Of bench-takeover: how often each fault; of bench-hostile: how many times as many objects.
RUNS ?= 3
SCALE ?= 1
# Of bench-pressure: machines of each family and the first seed, families to be raced (all if empty), and their directory.
SEEDS ?= 20
FIRST_SEED ?= 1
FAMILY ?=
FAMILIES ?=
MAX_PODS ?= 3
# Of bench-pressure-sweep: winpool with these sources.
CONTENDER ?=
# With any value, bench-pressure writes its figures into docs/reference/memory-benchmark-figures.md, and the plots into docs/memory-benchmark.
WRITE ?=
raced = $(notdir $(abspath $(or $(FAMILIES),families)))$(addprefix -,$(filter-out 3,$(MAX_PODS)))
# Set: instead of that, whether the running operator decides as in virtual time, on six machines, for 13 minutes.
TRUTH ?=

.PHONY: bench-contract bench-evict bench-fence bench-hostile bench-join bench-memory bench-plan bench-pressure bench-pressure-nightly bench-pressure-plots bench-pressure-sweep bench-storm bench-takeover bench-testbed
bench-contract: $(INSTALLED) ## The node contract on N nodes: against a raw loader, quiet, restarted, drifted
	@$(BIN)/python -m testbed build
	@$(bench) contract --nodes $(N) --pods $(PODS) --rounds $(ROUNDS) --steady-seconds $(STEADY_SECONDS) \
	  --drifts $(DRIFTS) --pod-pass-seconds $(POD_PASS_SECONDS)

bench-storm: $(INSTALLED) ## All N nodes change at once: events, status writes and series of metrics
	@$(BIN)/python -m testbed build
	@$(bench) storm --nodes $(N)

bench-join: $(INSTALLED) ## Ten nodes join N nodes with PODS: how long they are open to pods
	@$(BIN)/python -m testbed build
	@$(bench) join --nodes $(N) --pods $(PODS)

bench-memory: $(INSTALLED) ## The memory of N nodes is watched, 5 % of them hot: polls, CPU, size, ages; then some nodes hang
	@$(BIN)/python -m testbed build
	@$(bench) memory --nodes $(N) --steady-seconds $(STEADY_SECONDS) --poll-seconds $(POLL_SECONDS)

# The default of N is for benches with a cluster; this one needs none.
bench-plan: $(INSTALLED) ## The plan of upgrades of N nodes (5000 if not given) with pods: its CPU, without a cluster
	@$(bench) plan --nodes $(if $(filter file,$(origin N)),5000,$(N)) --rounds $(ROUNDS)

bench-pressure: $(INSTALLED) ## How well memory pressure is met, on SEEDS machines of each family in virtual time, without a cluster
ifdef TRUTH
	@$(BIN)/python -m testbed build
	@$(BIN)/python -m testbed.prometheus
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m bench.pressure.truth $(FAMILY:%=--family %)
else
	@$(bench) pressure --seeds $(SEEDS) --first-seed $(FIRST_SEED) --max-pods $(MAX_PODS) \
	  $(FAMILY:%=--family %) $(if $(FAMILIES),--families $(abspath $(FAMILIES)))
	@test -z "$(WRITE)" || sed -i -e '/^<!-- figures of $(raced) -->$$/,/^<!-- end -->$$/{//!d}' \
	  -e '/^<!-- figures of $(raced) -->$$/r .results/bench-pressure-$(raced).md' docs/reference/memory-benchmark-figures.md
	@$(if $(and $(WRITE),$(filter families,$(raced))),$(MAKE) --no-print-directory bench-pressure-plots)
endif

# The seeds are not those of the page, which would meet the same machines again.
bench-pressure-nightly: ## The same on 300 machines of each family, for hours, and whether the plots are fresh
	@$(MAKE) --no-print-directory bench-pressure SEEDS=300 FIRST_SEED=131
	@$(MAKE) --no-print-directory bench-pressure-plots

bench-pressure-plots: $(INSTALLED) ## The plots of docs/reference/memory-benchmark-figures.md: are they what the code draws? WRITE=1 writes them
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m bench.pressure.plot $(FAMILY:%=--family %) $(if $(WRITE),--write)

# Its seeds are those of design, if none are given.
bench-pressure-sweep: $(INSTALLED) ## What bench-pressure shows where each number that decides is a quarter lower or higher, alone
	@PYTHONPATH=$(CURDIR)/tests $(BIN)/python -m bench.pressure.sweep $(FAMILY:%=--family %) \
	  $(if $(FAMILIES),--families $(abspath $(FAMILIES))) $(CONTENDER:%=--contender %) \
	  $(if $(filter-out file,$(origin SEEDS)),--seeds $(SEEDS)) \
	  $(if $(filter-out file,$(origin FIRST_SEED)),--first-seed $(FIRST_SEED))

bench-evict: $(INSTALLED) ## N nodes (50 if not given) with PODS (1000) are drained at once, by the operator and by kubectl drain
	@$(BIN)/python -m testbed build
	@$(bench) evict --nodes $(if $(filter file,$(origin N)),50,$(N)) \
	  --pods $(if $(filter file,$(origin PODS)),1000,$(PODS)) --rounds $(if $(filter file,$(origin ROUNDS)),1,$(ROUNDS))

bench-fence: $(INSTALLED) ## The cost of the fence on a node with LABELS: a kubelet's status, a patch of the operator
	@$(BIN)/python -m testbed build
	@$(bench) fence --labels $(LABELS) --rounds $(ROUNDS) --writes $(WRITES)

bench-hostile: $(INSTALLED) ## Others create selectors and budgets as large as they get: RSS, repairs of another pool, liveness
	@$(BIN)/python -m testbed build
	@$(bench) hostile --nodes $(if $(filter file,$(origin N)),500,$(N)) --scale $(SCALE)

bench-takeover: $(INSTALLED) ## Two operators, and the one that leads fails in five ways: how long until the other writes
	@$(BIN)/python -m testbed build
	@$(bench) takeover --runs $(RUNS)

bench-testbed: $(INSTALLED) ## The cost of the simulated nodes themselves, for each of SIZES
	@$(BIN)/python -m testbed build
	@$(bench) testbed --sizes $(SIZES) --idle-seconds $(IDLE_SECONDS)

generate: $(INSTALLED) ## Write all generated files again: CRD, guard, fence, RBAC, reference pages, alert rules, chart
	@$(call generate,winpool.api.crd,crds/windowsnodepools.winpool.dev.yaml)
	@$(call generate,gen.guard_file,deploy/operator/guard.yaml)
	@$(call generate,gen.fence_file,deploy/operator/fence.yaml)
	@$(call generate,gen.rbac_file,deploy/operator/rbac.yaml)
	@$(call generate,gen.rbac_file metrics-auth,deploy/components/metrics-tls/metrics-auth.yaml)
	@$(call generate,gen.rbac_file memory,deploy/components/memory/memory-rights.yaml)
	@$(call generate,gen.rbac_file rollout,deploy/components/rollout/rollout-rights.yaml)
	@$(call generate,gen.rbac_file force,deploy/components/force/force-rights.yaml)
	@$(call generate,gen.api_reference,docs/reference/api.md)
	@$(call generate,gen.rbac_reference,docs/reference/rbac.md)
	@$(call generate,gen.metrics_reference,docs/reference/metrics.md)
	@$(call generate,gen.matrix_reference,docs/reference/matrix.md)
	@$(call generate,gen.gates_reference,docs/reference/gates.md)
	@$(call generate,gen.workload_rules_reference,docs/reference/workload-rules.md)
	@$(call generate,gen.node_rules_reference,docs/reference/node-rules.md)
	@$(call generate,gen.security_tests,docs/reference/security-tests.md)
	@$(call generate,unit.diagnose.test_reports,docs/diagnose-reports.md)
	@$(BIN)/python -m release.addresses
	@$(call generate,alerts.render rules,deploy/alerts/winpool.rules.yaml)
	@$(call generate,alerts.render prometheusrule,deploy/alerts/prometheusrule.yaml)
	@$(BIN)/python -m release.chart

# Into a new file first: an error must not empty what stands there.
generate = PYTHONPATH=tools:tests $(BIN)/python -m $(1) > $(2).new && mv $(2).new $(2)

format: $(INSTALLED) ## Format all Python
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

lock: $(INSTALLED) ## Resolve the exact pins of all dependencies again, with hashes
	@for out in run plugin dev build audit index manifests docs; do \
	  case $$out in \
	    run) from="pyproject.toml --extra operator";; \
	    plugin) from="pyproject.toml --constraint requirements/run.txt";; \
	    dev) from="pyproject.toml tests/testbed/pyproject.toml --extra operator --extra dev --extra plot";; \
	    *) from="requirements/$$out.in";; \
	  esac; \
	  $(BIN)/uv pip compile --quiet $$from --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --no-annotate -o requirements/$$out.txt; \
	done
