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
# Copies the health checks and actions of docs/argocd into a checkout of Argo CD, for
# a pull request there. In Argo CD's repository, every kind has a folder of its own,
# and the folder of an object's kind has the scripts for it.
set -o errexit -o nounset -o pipefail

if (( $# != 1 )) || [[ ! -d $1/resource_customizations ]]; then
  echo "usage: $0 CHECKOUT, a folder with Argo CD's repository" >&2
  exit 2
fi
group=$(cd "$1" && pwd)/resource_customizations/propagation.karmada-direct.io
cd "$(dirname "${BASH_SOURCE[0]}")/../../docs/argocd"

rm -rf "${group}"
for kind in DirectPropagation ClusterDirectPropagation; do
  mkdir -p "${group}/${kind}"
  cp -R health.lua health_test.yaml testdata actions "${group}/${kind}/"
done
# A ClusterDirectPropagation has no namespace.
sed -i -e 's/^kind: DirectPropagation$/kind: ClusterDirectPropagation/' -e '/^  namespace: /d' \
  "${group}"/ClusterDirectPropagation/testdata/*.yaml \
  "${group}"/ClusterDirectPropagation/actions/testdata/*.yaml
echo "${group}"
