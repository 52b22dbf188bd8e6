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
# Runs golangci-lint, as .golangci.yaml says, over every module that has code.
# Arguments are handed on, `run` when there are none: hack/tools/lint.sh run --fix
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# golangci-lint takes minutes to build from nothing, so it is kept, under a name
# that changes with its pinned version and with the Go that must understand it.
key=$({ go env GOVERSION; cat hack/tools/golangci-lint/go.mod hack/tools/golangci-lint/go.sum; } | git hash-object --stdin | cut -c1-12)
linter=$(pwd)/bin/golangci-lint-${key}
if [[ ! -x ${linter} ]]; then
  echo "building golangci-lint; the next run finds it in bin/"
  rm -f bin/golangci-lint-*
  go -C hack/tools/golangci-lint build -o "${linter}" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
fi

(( $# > 0 )) || set -- run
config=$(pwd)/.golangci.yaml
status=0
while IFS= read -r mod; do
  dir=$(dirname "${mod}")
  # A few lines that start Argo CD's own programs: to see into them, all of Argo
  # CD would be compiled, which `make e2e-argocd` alone does.
  if [[ ${dir} == hack/fleet/argocd && $1 == run ]]; then continue; fi
  # Modules that only pin tools have no package of their own.
  # go list warns about those, and fails for modules that are broken.
  packages=$(go -C "${dir}" list ./...) || { status=1; continue; }
  if [[ -z ${packages} ]]; then continue; fi
  echo "${dir}"
  (cd "${dir}" && "${linter}" "$@" --config "${config}" ./...) || status=1
done < <(git ls-files --cached --others --exclude-standard '*go.mod' | sort -u)
exit "${status}"
