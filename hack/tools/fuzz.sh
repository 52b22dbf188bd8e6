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
# Runs every fuzz target, one after the other, each for FUZZTIME (3m by default). Goes
# on after a failure, and fails at the end. Go writes an input that fails to
# testdata/fuzz/ in the package, where `go test` finds it from then on.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

time=${FUZZTIME:-3m}
mapfile -t targets < <(git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -oE '^func Fuzz[A-Za-z0-9]+' | sed 's/func //' | sort)
echo "${#targets[@]} fuzz targets, each for ${time}. The first run compiles for minutes, because fuzzing instruments all packages."
status=0
for i in "${!targets[@]}"; do
  file=${targets[i]%%:*} name=${targets[i]#*:}
  echo "[$((i + 1))/${#targets[@]}] ${name} in $(dirname "${file}")"
  go test "./$(dirname "${file}")" -run '^$' -fuzz "^${name}\$" -fuzztime "${time}" -fuzzminimizetime 10x || status=1
done
exit "${status}"
