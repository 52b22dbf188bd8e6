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
# Prints what is needed to move from PropagationPolicies to DirectPropagations. It
# changes nothing: it only reads, with kubectl and jq. See migration.md.
#
#   policies.sh report|policies|objects|preserve|release [--divided] [kubectl flags]
#
#   policies.sh report -A             # which policies can be moved, and why others cannot
#   policies.sh objects -n shop       # the DirectPropagations, for kubectl apply -f -
set -o errexit -o nounset -o pipefail

usage() { sed -n '/^#   policies/{s/^# *//;p}' "${BASH_SOURCE[0]}" >&2; exit 2; }

print=${1:-}
case ${print} in
  report | policies | objects | preserve | release) shift ;;
  *) usage ;;
esac
divided=false
if [[ ${1:-} == --divided ]]; then divided=true; shift; fi

kubectl get propagationpolicies.policy.karmada.io,resourcebindings.work.karmada.io "$@" --output json |
  jq --raw-output --arg print "${print}" --arg divided "${divided}" --from-file "$(dirname "${BASH_SOURCE[0]}")/policies.jq"
