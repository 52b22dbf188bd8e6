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
# Runs golangci-lint with .golangci.yaml on every module that has code. Passes its
# arguments on; the default is `run`. Example: hack/tools/lint.sh run --fix
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Building golangci-lint takes minutes, so the binary is kept under a name that
# depends on its pinned version and on the version of Go.
key=$({ go env GOVERSION; cat hack/tools/golangci-lint/go.mod hack/tools/golangci-lint/go.sum; } | git hash-object --stdin | cut -c1-12)
linter=$(pwd)/bin/golangci-lint-${key}
if [[ ! -x ${linter} ]]; then
  echo "building golangci-lint in bin/, where the next run finds it"
  rm -f bin/golangci-lint-*
  go -C hack/tools/golangci-lint build -o "${linter}" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
fi

(( $# > 0 )) || set -- run
config=$(pwd)/.golangci.yaml
status=0
while IFS= read -r mod; do
  dir=$(dirname "${mod}")
  # These modules contain only a few lines that start other programs. Linting the
  # first would compile all of Argo CD, which otherwise only `make e2e-argocd` does.
  # The second compiles only with the patch that hack/fleet applies.
  if [[ ${dir} == hack/fleet/argocd || ${dir} == hack/fleet/kwok ]] && [[ $1 == run ]]; then continue; fi
  # Modules that only pin tools have no packages. go list warns about those, and
  # fails for broken modules.
  packages=$(go -C "${dir}" list ./...) || { status=1; continue; }
  if [[ -z ${packages} ]]; then continue; fi
  echo "${dir}"
  (cd "${dir}" && "${linter}" "$@" --config "${config}" ./...) || status=1
done < <(git ls-files --cached --others --exclude-standard '*go.mod' | sort -u)
exit "${status}"
