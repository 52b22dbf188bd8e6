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
# The image of the controller-manager, for all platforms:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 .
#
# `make image` builds the same image without a daemon: it reads the last stage of
# this file and compiles with the same script.
#
# The base is pinned by the digest of its index, which covers all platforms, so
# moving the tag has no effect.
FROM --platform=${BUILDPLATFORM} golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH} VERSION=${VERSION} hack/image/compile.sh /out/controller-manager

# Contains only the program, which is static and includes the usual certificate
# authorities.
FROM scratch
LABEL org.opencontainers.image.title="karmada-direct controller-manager" \
      org.opencontainers.image.description="Sends a resource to the clusters you name, through Karmada" \
      org.opencontainers.image.source="https://github.com/karmada-direct/karmada-direct" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/controller-manager /controller-manager
USER 65532:65532
ENTRYPOINT ["/controller-manager"]
