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

# Regenerates all generated files in place, from the Go types in apis/ and other
# sources. Arguments select parts: deepcopy, crds, clients, reference, install,
# argocd. The default is all of them.
# The tools are built from the versions that hack/tools/go.mod pins; only Go
# modules are downloaded.
set -o errexit -o nounset -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly module=github.com/karmada-direct/karmada-direct
readonly header=hack/boilerplate.go.txt
readonly api=propagation/v1alpha1

bin=$(pwd)/bin
scratch=$(mktemp -d)
trap 'rm -rf "${scratch}"' EXIT

deepcopy() {
  "${bin}/controller-gen" "object:headerFile=${header}" paths=./apis/propagation/...
}

# Writes into an empty directory first, so that no file remains of a kind that was
# renamed or removed.
crds() {
  "${bin}/controller-gen" crd:generateEmbeddedObjectMeta=false paths=./apis/propagation/... "output:crd:dir=${scratch}/crds"
  mkdir -p apis/crds
  rm -f apis/crds/*.yaml
  cp "${scratch}"/crds/*.yaml apis/crds/
}

# Generates the apply configurations before the clientset, which refers to them.
# They need the schemas of the CRDs, so crds runs earlier.
clients() {
  "${bin}/modelschema" "${module}/apis/${api}" apis/crds/*.yaml >"${scratch}/models.json"
  rm -rf apis/client
  "${bin}/applyconfiguration-gen" \
    --go-header-file "${header}" \
    --openapi-schema "${scratch}/models.json" \
    --output-dir apis/client/applyconfiguration \
    --output-pkg "${module}/apis/client/applyconfiguration" \
    "${module}/apis/${api}"
  "${bin}/client-gen" \
    --go-header-file "${header}" \
    --clientset-name versioned \
    --input-base "${module}/apis" \
    --input "${api}" \
    --apply-configuration-package "${module}/apis/client/applyconfiguration" \
    --output-dir apis/client/clientset \
    --output-pkg "${module}/apis/client/clientset"
  "${bin}/lister-gen" \
    --go-header-file "${header}" \
    --output-dir apis/client/listers \
    --output-pkg "${module}/apis/client/listers" \
    "${module}/apis/${api}"
  "${bin}/informer-gen" \
    --go-header-file "${header}" \
    --versioned-clientset-package "${module}/apis/client/clientset/versioned" \
    --listers-package "${module}/apis/client/listers" \
    --output-dir apis/client/informers \
    --output-pkg "${module}/apis/client/informers" \
    "${module}/apis/${api}"
}

reference() {
  mkdir -p docs/reference
  "${bin}/crd-ref-docs" \
    --config hack/tools/reference/config.yaml \
    --templates-dir hack/tools/reference/templates \
    --source-path apis/propagation \
    --renderer markdown \
    --output-path docs/reference/api.md \
    --log-level ERROR
}

# Generates the complete manifests for the Karmada API server, for kubectl and
# GitOps, and the pages that quote or list the content of other files.
install() {
  local dir=cmd/controller-manager/install
  {
    echo "# Generated from apis/crds. Belongs on the Karmada API server, never on its host cluster."
    cat apis/crds/*.yaml
    local part
    for part in controller propagated account users; do
      echo "---"
      cat "${dir}/${part}.yaml"
    done
  } >"${dir}/install.yaml"
  "${bin}/chartdocs" readme charts/direct-propagation
  "${bin}/chartdocs" quote docs/install.md
}

# Generates the ConfigMap with the scripts for Argo CD.
argocd() {
  local dir=docs/argocd kind action
  indented() { sed "s/^./$1&/" "${dir}/$2"; }
  {
    echo "# Generated from the scripts beside it. Merge it into the ConfigMap argocd-cm of Argo CD."
    echo "apiVersion: v1"
    echo "kind: ConfigMap"
    echo "metadata:"
    echo "  name: argocd-cm"
    echo "  namespace: argocd"
    echo "data:"
    for kind in DirectPropagation ClusterDirectPropagation; do
      echo "  resource.customizations.health.propagation.karmada-direct.io_${kind}: |"
      indented "    " health.lua
      echo "  resource.customizations.actions.propagation.karmada-direct.io_${kind}: |"
      echo "    discovery.lua: |"
      indented "      " actions/discovery.lua
      echo "    definitions:"
      for action in abort-rollout approve-rollout pause-rollout resume resume-rollout retry-rollout suspend; do
        echo "    - name: ${action}"
        echo "      action.lua: |"
        indented "        " "actions/${action}/action.lua"
      done
    done
  } >"${dir}/argocd-cm.yaml"
}

(( $# > 0 )) || set -- deepcopy crds clients reference install argocd
go -C hack/tools build -o "${bin}/" tool ./modelschema ./chartdocs
for part in "$@"; do
  case ${part} in
  deepcopy | crds | clients | reference | install | argocd)
    echo "generating ${part}"
    "${part}"
    ;;
  *)
    echo "unknown part ${part}; parts are deepcopy, crds, clients, reference, install, argocd" >&2
    exit 2
    ;;
  esac
done
