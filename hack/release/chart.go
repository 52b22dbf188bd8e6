/*
Copyright The Karmada Direct Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packageChart packages the chart with the version of the release. helm writes the
// current time into the package, so it is written again.
func packageChart(ctx context.Context, o order, scratch, into string) (string, error) {
	fmt.Fprintln(o.progress, "release: packaging the chart")
	version := strings.TrimPrefix(o.version, "v")
	name := "direct-propagation-" + version + ".tgz"
	if _, err := output(exec.CommandContext(ctx, o.helm, "package", filepath.Join(o.tree, "charts", "direct-propagation"),
		"--version", version, "--app-version", o.version, "--destination", scratch)); err != nil {
		return "", err
	}
	packaged, err := os.Open(filepath.Join(scratch, name))
	if err != nil {
		return "", err
	}
	defer packaged.Close()
	entries, err := readEntries(packaged)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	path := filepath.Join(into, name)
	return path, create(path, func(out io.Writer) error { return writeEntries(out, entries, o.time) })
}

// writeManifests writes what kubectl needs instead of Helm: install.yaml for the
// Karmada API server, in which nothing runs and which therefore names no image, and
// controller.yaml for the host cluster, with the image of this version.
func writeManifests(ctx context.Context, o order, packaged, digest, into string) error {
	install, err := os.ReadFile(filepath.Join(o.tree, "cmd", "controller-manager", "install", "install.yaml"))
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(into, "install.yaml"), "# Karmada Direct "+o.version+"\n"+string(install)); err != nil {
		return err
	}
	registry, owner, _ := strings.Cut(o.registry, "/")
	rendered, err := output(exec.CommandContext(ctx, o.helm, "template", "direct-propagation", packaged, "--namespace", "karmada-system",
		"--set", "image.registry="+registry, "--set", "image.repository="+strings.Trim(owner+"/controller-manager", "/"), "--set", "image.digest="+digest))
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(into, "controller.yaml"), "# Karmada Direct "+o.version+"\n"+
		"# Rendered from the chart with its default values. Belongs in the host cluster, in the\n"+
		"# namespace karmada-system, which has the Secret of `karmadactl init`.\n"+rendered)
}

func writeFile(path, content string) error {
	return create(path, func(out io.Writer) error {
		_, err := io.WriteString(out, content)
		return err
	})
}
