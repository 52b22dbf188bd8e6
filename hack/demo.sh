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
# Shows on this machine what Karmada Direct does: see hack/demo. "demo.sh down"
# ends it.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Said first: the next line is silent while it compiles.
[[ ${1:-} == down ]] || echo "Karmada Direct on this machine: compiling the demo first, which takes minutes when nothing is compiled yet."
exec go run ./hack/demo "$@"
