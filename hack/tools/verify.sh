#!/usr/bin/env bash
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
# Checks what a reviewer should not have to: that generated files are up to date,
# that every module is tidy, that go vet and the linter pass, that files have the
# license header. Runs all checks before it fails, so that one run reports every
# problem.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failures=()
skipped=()

step() { printf '\n== %s (at %ds)\n' "$1" "${SECONDS}"; }

fail() {
  printf 'FAIL: %s\n' "$1" >&2
  failures+=("$1")
}

# files lists tracked and new files, without ignored and deleted ones.
files() {
  git ls-files --cached --others --exclude-standard "$@" | sort -u | while IFS= read -r file; do
    if [[ -f ${file} ]]; then printf '%s\n' "${file}"; fi
  done
}

# fingerprints prints "<hash> <file>" for every file. Comparing two of them,
# rather than asking git for changes, lets verify run on work in progress.
fingerprints() {
  local list
  list=$(files)
  paste -d ' ' <(git hash-object --stdin-paths <<<"${list}") <(printf '%s\n' "${list}")
}

check_generated() {
  local before after changed
  before=$(fingerprints)
  if ! hack/tools/generate.sh; then
    fail "generation failed"
    return
  fi
  after=$(fingerprints)
  changed=$(diff <(printf '%s\n' "${before}") <(printf '%s\n' "${after}") | sed -n 's/^[<>] [0-9a-f]* //p' | sort -u || true)
  if [[ -n ${changed} ]]; then
    printf '%s\n' "${changed}" | sed 's/^/  /' >&2
    fail "generation changed the files above: run \`make generate\` and commit the result"
  fi
}

check_tidy() {
  local mod dir
  while IFS= read -r mod; do
    dir=$(dirname "${mod}")
    echo "${dir}"
    go -C "${dir}" mod tidy -diff || fail "${mod} is not tidy: run \`go -C ${dir} mod tidy\`"
  done < <(files '*go.mod')
}

# pins prints "<module> <version>" for every requirement of a module, or what
# replaces it.
pins() {
  awk '
    { sub(/^(require|replace) /, ""); sub(/^\t/, "") }
    $2 ~ /^v/ && !($1 in pin) { pin[$1] = $2 }
    $2 == "=>" && $4 ~ /^v/ { pin[$1] = $4 }
    END { for (module in pin) print module, pin[module] }' "$1/go.mod" | LC_ALL=C sort
}

# The tests run the controller against the servers of a fleet, so both are built from
# the same versions of Kubernetes and Karmada. All other shared libraries also have a
# single version, so that they are compiled only once. A different version of a
# library such as golang.org/x/net makes Go compile everything that depends on it
# again.
check_pins() {
  local dir differences
  for dir in . hack/fleet hack/fleet/kwok hack/chart hack/tools; do
    echo "${dir}"
    differences=$(LC_ALL=C join <(pins hack/fleet/components) <(pins "${dir}") | awk '$2 != $3')
    while read -r module theirs ours; do
      [[ -z ${module} ]] || fail "${module} is ${ours} in ${dir}/go.mod and ${theirs} in hack/fleet/components/go.mod: use one version"
    done <<<"${differences}"
  done
  # Kubernetes itself is v1, but its libraries are v0.
  local servers libraries
  servers=$(pins hack/fleet/components | sed -n 's|^k8s\.io/kubernetes v1\.||p')
  libraries=$(pins . | sed -n 's|^k8s\.io/api v0\.||p')
  [[ ${servers} == "${libraries}" ]] ||
    fail "k8s.io/api is v0.${libraries} in go.mod and k8s.io/kubernetes v1.${servers} in hack/fleet/components/go.mod: use one release"
}

# Only for the root module: golangci-lint runs the same analyzers on every module,
# while go vet would first analyze all of Kubernetes for hack/fleet, which takes 15
# minutes with an empty cache.
check_vet() {
  go vet -tags integration,e2e,e2e_helm,e2e_argocd,e2e_karmada,e2e_manifests,faults,rollouts,soak,mutants ./... || fail "go vet"
}

check_licenses() {
  local header file
  header=$(sed '1d;$d' hack/boilerplate.go.txt) # without the comment's marks
  while IFS= read -r file; do
    # Shell scripts and makefiles have "# " before each line. A generator can write
    # a build tag before the header, hence the few lines of tolerance.
    if [[ $(head -n 22 "${file}" | sed 's/^# \{0,1\}//') != *"${header}"* ]]; then
      fail "${file} lacks the license header of hack/boilerplate.go.txt"
    fi
  done < <(files '*.go' '*.sh' '*Makefile' '*Dockerfile' .ci/run)
}

check_scripts() {
  local file
  while IFS= read -r file; do
    bash -n "${file}" || fail "${file} is not valid bash"
    [[ -x ${file} ]] || fail "${file} is not executable"
  done < <(files '*.sh' .ci/run)
}

# Without shellcheck and pyflakes, which actionlint runs if they happen to be there.
check_workflows() {
  local linter workflows
  linter=$(go -C hack/tools/actionlint tool -n actionlint)
  mapfile -t workflows < <(files '.github/workflows/*')
  "${linter}" -shellcheck= -pyflakes= "${workflows[@]}" || fail "actionlint"
}

# Offline, the database is not available. This is neither a failure of the change
# nor a success: the last line of the output says so.
check_vulnerabilities() {
  local status=0
  hack/tools/vulncheck.sh || status=$?
  case ${status} in
    0) ;;
    75) skipped+=("known vulnerabilities: the database cannot be reached; with VULNCHECK=required, this is a failure") ;;
    *) fail "known vulnerabilities" ;;
  esac
}

step "generated files are up to date"
check_generated
step "license headers"
check_licenses
step "scripts"
check_scripts
step "workflows of GitHub"
check_workflows
step "go mod tidy, every module"
check_tidy
step "versions of Kubernetes and Karmada agree"
check_pins
step "go vet"
check_vet
step "golangci-lint, every module"
hack/tools/lint.sh || fail "golangci-lint"
step "known vulnerabilities"
check_vulnerabilities

if (( ${#failures[@]} > 0 )); then
  printf '\nverify found %d problem(s):\n' "${#failures[@]}" >&2
  printf '  %s\n' "${failures[@]}" >&2
  exit 1
fi
if (( ${#skipped[@]} > 0 )); then
  printf '\nverify: all other checks passed after %ds. NOT CHECKED:\n' "${SECONDS}"
  printf '  %s\n' "${skipped[@]}"
  exit 0
fi
printf '\nverify: all checks passed after %ds\n' "${SECONDS}"
