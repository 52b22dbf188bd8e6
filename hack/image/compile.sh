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
# Compiles the controller-manager for the image: a static binary for $GOOS and
# $GOARCH that reports $VERSION. The same sources produce the same bytes.
set -o errexit -o nounset -o pipefail
out=$(realpath --canonicalize-missing "${1:?the path of the program is required}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
CGO_ENABLED=0 go build -trimpath -buildvcs=false \
  -ldflags "-s -w -X main.version=${VERSION:-dev}" \
  -o "${out}" ./cmd/controller-manager
