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
# Checks what a reviewer should not have to: that generated files are what the
# sources make of them, that every module is tidy, that code vets and lints,
# that files carry the license. Goes through all of it before it fails, so that
# one run tells everything.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

failures=()
skipped=()

step() { printf '\n== %s (at %ds)\n' "$1" "${SECONDS}"; }

fail() {
  printf 'FAIL: %s\n' "$1" >&2
  failures+=("$1")
}

# files lists what belongs to the repository or is about to: tracked files and
# new ones, without what .gitignore names and what was deleted.
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
    fail "generation changed the files above: commit what \`make generate\` makes"
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

# Of the root module only: golangci-lint runs the same analyzers over every
# module, while go vet would first analyze all of Kubernetes for hack/fleet,
# which takes a quarter of an hour when nothing is cached.
check_vet() {
  go vet -tags integration,e2e,e2e_helm,e2e_argocd,faults ./... || fail "go vet"
}

check_licenses() {
  local header file
  header=$(sed '1d;$d' hack/boilerplate.go.txt) # without the comment's marks
  while IFS= read -r file; do
    # Shell and make write "# " before each line. A generator's build tag may
    # stand before the header, hence the few lines of tolerance.
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

# Offline there is no database to look things up in. That is no failure of the
# change, and no success either: the last line says so.
check_vulnerabilities() {
  local status=0
  hack/tools/vulncheck.sh || status=$?
  case ${status} in
    0) ;;
    75) skipped+=("known vulnerabilities: the database cannot be reached; VULNCHECK=required makes that a failure") ;;
    *) fail "known vulnerabilities" ;;
  esac
}

step "generated files are up to date"
check_generated
step "license headers"
check_licenses
step "scripts"
check_scripts
step "go mod tidy, every module"
check_tidy
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
  printf '\nverify: good as far as it was checked, after %ds. NOT CHECKED:\n' "${SECONDS}"
  printf '  %s\n' "${skipped[@]}"
  exit 0
fi
printf '\nverify: all good, after %ds\n' "${SECONDS}"
