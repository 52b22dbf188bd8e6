# Copyright The Karmada Direct Authors.
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
# All targets need only Go, git and bash. Tools come from Go modules that
# hack/tools pins, and are built into bin/.

SHELL := bash
.SHELLFLAGS := -o errexit -o nounset -o pipefail -c
.DEFAULT_GOAL := help

# The version that a build reports.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0)

# The name of the image: the one that the chart of this tree asks for with
# image.registry=localhost. If a VERSION is given, it is the tag.
APP_VERSION = $(shell sed -n 's/^appVersion: //p' charts/direct-propagation/Chart.yaml)
IMAGE ?= localhost/karmada-direct/controller-manager:$(if $(filter file,$(origin VERSION)),$(APP_VERSION),$(VERSION))
# What the image says of itself: without a version, its install-crds could not know newer definitions from older ones.
IMAGE_VERSION = $(if $(filter file,$(origin VERSION)),$(APP_VERSION)+$(VERSION),$(VERSION))
PLATFORMS ?= linux/amd64,linux/arm64
ARCHIVE ?= bin/image.tar

# Additional flags for helm push, for example --plain-http for a registry on this machine.
PUSHFLAGS ?=

# Additional flags for go test, for example: make test-unit TESTFLAGS="-v -run 'TestPlan|TestRow'"
TESTFLAGS ?=

##@ Develop

.PHONY: help
help: ## Print this help.
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Regenerate all generated files: deep copies, CRDs, clients, references, install.yaml.
	hack/tools/generate.sh

.PHONY: manifests
manifests: ## Regenerate the CRDs only.
	hack/tools/generate.sh crds

.PHONY: fmt
fmt: ## Format the Go code and sort the imports of every module.
	hack/tools/lint.sh fmt

.PHONY: vet
vet: ## Run go vet, including test files with build tags.
	go vet -tags integration,e2e,e2e_helm,e2e_argocd,e2e_karmada,e2e_manifests,faults,rollouts,soak,mutants ./...

.PHONY: lint
lint: ## Run golangci-lint on every module.
	hack/tools/lint.sh run

.PHONY: build
build: ## Build bin/controller-manager.
	go build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/controller-manager ./cmd/controller-manager

.PHONY: image
image: ## Build the image as an OCI archive, bin/image.tar, without a daemon. PLATFORMS=linux/amd64 for one platform.
	mkdir -p bin
	go -C hack/image run . --root ../.. --output $(abspath $(ARCHIVE)) --version $(IMAGE_VERSION) --name $(IMAGE) --platforms $(PLATFORMS)

.PHONY: push-image
push-image: ## Push the archive of an image: make push-image IMAGE=registry.example.org/karmada-direct/controller-manager:v0.2.0
	go -C hack/image run ./push --archive $(abspath $(ARCHIVE)) $(IMAGE)

.PHONY: chart
chart: ## Package the chart as bin/direct-propagation-<version>.tgz.
	"$$(go -C hack/fleet run . build helm | tail -1)/helm" package charts/direct-propagation --destination bin

.PHONY: push-chart
push-chart: ## Push a package of the chart: make push-chart CHART=bin/direct-propagation-0.2.0.tgz CHARTS=registry.example.org/charts
	pushed=$$("$$(go -C hack/fleet run . build helm | tail -1)/helm" push $(CHART) oci://$(CHARTS) $(PUSHFLAGS) 2>&1) || { echo "$${pushed}" >&2; exit 1; }; \
		sed -n 's|^Pushed: \(.*\):[^:]*$$|\1|p; s|^Digest: |@|p' <<<"$${pushed}" | paste -s -d ''

# Where a release is pushed: a registry and an owner. Additional flags, for example:
# make release-dry-run VERSION=v0.3.0 RELEASEFLAGS=--check
REGISTRY ?= ghcr.io/karmada-direct
RELEASEFLAGS ?=

.PHONY: release-dry-run
release-dry-run: ## Build everything of a release in bin/release, and publish nothing. RELEASEFLAGS=--check builds twice and compares.
	go -C hack/release run . --root ../.. --output ../../bin/release --version $(VERSION) --registry $(REGISTRY) \
		--helm "$$(go -C hack/fleet run . build helm | tail -1)/helm" $(RELEASEFLAGS)

##@ Check

.PHONY: verify
verify: ## Run all checks that need no server: generated files, licenses, go mod tidy, vet, lint, known vulnerabilities.
	hack/tools/verify.sh

.PHONY: vulncheck
vulncheck: ## Check for known vulnerabilities. VULNDB=file:///… uses a copy of the database; VULNCHECK=required fails without one.
	hack/tools/vulncheck.sh

.PHONY: test
test: test-unit test-integration e2e ## Run all tests: unit, integration and e2e.

.PHONY: test-unit
test-unit: ## Run the tests that need no server, with the race detector.
	go test -race $(TESTFLAGS) ./apis/... ./controllers/... ./cmd/... ./hack/argocd/... ./hack/bench/... ./hack/faults/agents/... ./hack/testbed/... ./docs/...
	go test $(TESTFLAGS) ./hack/simulate/apiserver ./hack/simulate/karmada ./hack/simulate/mutants
	go test $(TESTFLAGS) -run '^TestSimulation$$' ./hack/simulate
	@# Without the test cache, which does not see files outside these modules.
	go -C hack/chart test -count 1 $(TESTFLAGS) ./...
	go -C hack/fleet test -count 1 $(TESTFLAGS) ./...
	go -C hack/tools test -count 1 $(TESTFLAGS) ./...
	@# Without the test that compiles for several platforms, which test-release runs.
	go -C hack/release test -count 1 -skip '^TestRelease$$' $(TESTFLAGS) ./...

.PHONY: test-integration
test-integration: ## Run the tests against a real API server and etcd; the first run builds them from source.
	@# On a busy machine, an API server takes longer to start than the default of 20 s.
	KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=$${KUBEBUILDER_CONTROLPLANE_START_TIMEOUT:-2m} \
	KUBEBUILDER_ASSETS="$$(go -C hack/fleet run . build components | tail -1)" \
		go test -tags integration -timeout 20m $(TESTFLAGS) ./apis/... ./controllers/... ./cmd/... ./docs/...

.PHONY: e2e
e2e: ## Run the end-to-end tests on a real fleet: Karmada with push and pull members.
	go test -tags e2e -count 1 -timeout 45m -v $(TESTFLAGS) ./hack/e2e

.PHONY: test-image
test-image: ## Build the image, check its content, push and import it.
	go -C hack/image test -count 1 -timeout 20m $(TESTFLAGS) ./...
	go -C hack/image/containerd test -count 1 -timeout 20m $(TESTFLAGS) ./...

.PHONY: test-release
test-release: ## Build everything of a release twice, for all platforms, and compare. Takes minutes.
	go -C hack/release test -count 1 -timeout 40m $(TESTFLAGS) ./...

.PHONY: e2e-helm
e2e-helm: test-image ## Install the chart with Helm in a host cluster next to Karmada, and test the installed controller.
	go test -tags e2e_helm -count 1 -timeout 45m -v $(TESTFLAGS) ./hack/e2e/helm/...

.PHONY: e2e-argocd
e2e-argocd: ## Deploy to Karmada with Argo CD from a Git repository. Needs redis-server on this machine.
	go test -tags e2e,e2e_argocd -run '^TestArgoCD' -count 1 -timeout 45m -v $(TESTFLAGS) ./hack/e2e

.PHONY: e2e-karmada
e2e-karmada: ## Play the same traces on a real Karmada and on the simulated one, and compare.
	go test -tags e2e,e2e_karmada -run '^TestKarmadaIsAsItsModel' -count 1 -timeout 45m -v $(TESTFLAGS) ./hack/e2e

# A folder with further manifests.
MANIFESTS ?=

.PHONY: e2e-manifests
e2e-manifests: ## Propagate manifests of Argo CD directly and by policies, and compare. MANIFESTS=folder adds others.
	E2E_MANIFESTS="$(MANIFESTS)" go test -tags e2e,e2e_manifests -run '^TestManifestsBothWays' -count 1 -timeout 90m -v $(TESTFLAGS) ./hack/e2e

# How many steps to simulate at least, in runs of 600 and the steps until all is quiet,
# and the seed of the first run.
STEPS ?= 10000
SEED ?= 1

.PHONY: simulate
simulate: ## Simulate the controller with random users and faults, for example: make simulate STEPS=100000 SEED=7
	go test ./hack/simulate -run '^TestSimulation$$' -count 1 -timeout 24h -v -args -seed $(SEED) -total $(STEPS)

.PHONY: simulate-deaths
simulate-deaths: ## Let the controller die at each write of each operation of the simulation. Takes an hour.
	go test ./hack/simulate -run '^TestDeathAtEveryWrite$$' -count 1 -timeout 24h -v -args -deaths -1 -seed $(SEED)

# Additional flags, for example: make simulate-mutants MUTANTFLAGS='-only ^cached: -steps 5000'
MUTANTFLAGS ?=

.PHONY: simulate-mutants
simulate-mutants: ## Put one defect after another into the controller, and show which of them the simulation finds. Takes hours.
	go run ./hack/simulate/mutants $(MUTANTFLAGS)

# How long each fuzz target runs.
FUZZTIME ?= 3m

.PHONY: fuzz
fuzz: ## Run all fuzz targets one after another, for example: make fuzz FUZZTIME=30s
	FUZZTIME=$(FUZZTIME) hack/tools/fuzz.sh

.PHONY: rollouts
rollouts: ## Test rollouts across clusters on a fleet of six members.
	go test -tags rollouts -count 1 -timeout 60m -v $(TESTFLAGS) ./hack/rollouts

.PHONY: faults
faults: ## Run the fault tests, which take long: stopped members and controllers, leaving clusters, bursts of changes.
	go test -tags faults -count 1 -timeout 90m -v $(TESTFLAGS) ./hack/faults

# How long the soak test runs, and how much time its users let pass between two
# operations.
DURATION ?= 1h
PACE ?= 2s

.PHONY: soak
soak: ## Let random users and failing members keep the controller busy, and plot what it needs: make soak DURATION=1h
	SOAK_DURATION=$(DURATION) SOAK_PACE=$(PACE) go test -tags soak -run '^TestSoak$$' -count 1 -timeout 24h -v $(TESTFLAGS) ./hack/soak
	go -C hack/tools run ./plot ../../docs/reliability

# Additional flags, for example: make bench BENCHFLAGS='-case a,f'
BENCHFLAGS ?=

.PHONY: bench
bench: ## Compare with the bare limit and PropagationPolicy, and write docs/benchmarks. Takes about half an hour.
	missed=0; go run ./hack/bench -out docs/benchmarks $(BENCHFLAGS) || missed=$$?; \
		go -C hack/tools run ./plot ../../docs/benchmarks; exit $$missed

.PHONY: bench-short
bench-short: ## Check the ratios and counts of the benchmark with small sizes. Takes minutes.
	go run ./hack/bench -short $(BENCHFLAGS)

##@ Try

.PHONY: demo
demo: ## Start a fleet and the controller on this machine, and show what the controller does.
	@echo "This starts Karmada with two member clusters as processes on this machine, starts the controller,"
	@echo "propagates a Deployment and leaves everything running. It takes about half a minute."
	@echo "If nothing is compiled yet, it first compiles the demo, Karmada, Kubernetes and etcd, which takes 8 to 14 minutes on 2 cores."
	@go run ./hack/demo

.PHONY: demo-down
demo-down: ## Stop the demo's fleet and remove its state.
	@go run ./hack/demo down
