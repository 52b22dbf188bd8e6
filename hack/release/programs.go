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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// allPlatforms are those of the program. The image has those of `make image`.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// program is the compiled program for one platform.
type program struct {
	name string // as in controller-manager_v0.3.0_linux_amd64
	path string
}

// buildPrograms compiles the program with the script that the image uses, and packs
// it for each platform as is usual there.
func buildPrograms(ctx context.Context, o order, scratch, into string) ([]program, error) {
	programs := []program{}
	for platform := range strings.SplitSeq(o.platforms, ",") {
		goos, goarch, _ := strings.Cut(platform, "/")
		fmt.Fprintf(o.progress, "release: compiling for %s\n", platform)
		built := program{name: fmt.Sprintf("controller-manager_%s_%s_%s", o.version, goos, goarch)}
		built.path = filepath.Join(scratch, built.name)
		compile := exec.CommandContext(ctx, filepath.Join(o.tree, "hack", "image", "compile.sh"), built.path)
		compile.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "VERSION="+o.version)
		if _, err := output(compile); err != nil {
			return nil, err
		}
		content := []file{
			{name: "LICENSE", path: filepath.Join(o.tree, "LICENSE"), mode: 0o644},
			{name: "README.md", path: filepath.Join(o.tree, "README.md"), mode: 0o644},
			{name: "controller-manager", path: built.path, mode: 0o755},
		}
		archive, pack := built.name+".tar.gz", writeTar
		if goos == "windows" {
			archive, pack, content[2].name = built.name+".zip", writeZip, "controller-manager.exe"
		}
		if err := pack(filepath.Join(into, archive), content, o.time); err != nil {
			return nil, err
		}
		programs = append(programs, built)
	}
	return programs, nil
}

// buildImage builds the archive of the image and returns the image's digest, which
// stays the same in every registry.
func buildImage(ctx context.Context, o order, into string) (string, error) {
	fmt.Fprintln(o.progress, "release: building the image")
	archive := filepath.Join(into, "controller-manager_"+o.version+"_image.tar")
	printed, err := output(exec.CommandContext(ctx, "go", "-C", filepath.Join(o.tree, "hack", "image"), "run", ".",
		"--root", o.tree, "--output", archive, "--version", o.version))
	if err != nil {
		return "", err
	}
	_, digest, found := strings.Cut(strings.TrimSpace(printed), "@")
	if !found {
		return "", fmt.Errorf("hack/image printed %q, without a digest", printed)
	}
	return digest, nil
}
