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

// Command release builds everything of a release in a folder: the program for all
// platforms, the image, the chart, manifests, a list of what the program is built
// from, checksums and the release notes. It publishes nothing, and needs the network
// only for Go modules that are not in the module cache.
//
//	release --version v0.3.0 --helm bin/helm --output bin/release
//
// The same commit gives the same bytes: times are that of the commit, and nothing
// depends on the folder. --check builds a second time, from a copy of the sources in
// another folder, and compares.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// order describes what to build.
type order struct {
	root      string // folder of the repository, for what git knows
	tree      string // folder of the sources
	output    string // folder of the results
	version   string
	platforms string
	registry  string // registry and owner to which the release is pushed
	helm      string // path of the helm command
	commit    string
	time      time.Time // of the commit
	progress  io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to be stopped
	}
}

func run(ctx context.Context, arguments []string) error {
	o := order{progress: os.Stderr}
	check, tagged := false, false
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "folder of the repository")
	flags.StringVar(&o.output, "output", "../../bin/release", "folder of the results; is replaced")
	flags.StringVar(&o.version, "version", "", "version, as vMAJOR.MINOR.PATCH; anything else becomes v0.0.0-g…")
	flags.StringVar(&o.platforms, "platforms", allPlatforms, "platforms of the program")
	flags.StringVar(&o.registry, "registry", "ghcr.io/karmada-direct", "registry and owner to which the release is pushed")
	flags.StringVar(&o.helm, "helm", "helm", "helm command")
	flags.BoolVar(&check, "check", false, "build twice and compare")
	flags.BoolVar(&tagged, "tagged", false, "fail unless the commit is tagged with the version, and chart and changelog have it")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := o.complete(ctx); err != nil {
		return err
	}
	if tagged {
		if err := checkTag(ctx, o); err != nil {
			return err
		}
	}
	if err := build(ctx, o); err != nil {
		return err
	}
	if check {
		if err := checkAgain(ctx, o); err != nil {
			return err
		}
	}
	fmt.Println(o.output)
	return nil
}

// complete makes paths absolute, and reads from git which commit is built.
func (o *order) complete(ctx context.Context) error {
	for _, path := range []*string{&o.root, &o.output} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	o.tree, o.version = o.root, releaseVersion(o.version)
	printed, err := git(ctx, o.root, "log", "-1", "--format=%H %cI")
	if err != nil {
		return err
	}
	commit, date, _ := strings.Cut(strings.TrimSpace(printed), " ")
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return fmt.Errorf("the time of commit %s: %w", commit, err)
	}
	o.commit, o.time = commit, at.UTC()
	return nil
}

// build builds in a folder beside the output, which it replaces only if everything
// succeeds.
func build(ctx context.Context, o order) error {
	if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(o.output), ".release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	into := filepath.Join(scratch, "release")
	if err := os.Mkdir(into, 0o755); err != nil {
		return err
	}
	programs, err := buildPrograms(ctx, o, scratch, into)
	if err != nil {
		return err
	}
	digest, err := buildImage(ctx, o, into)
	if err != nil {
		return err
	}
	packaged, err := packageChart(ctx, o, scratch, into)
	if err != nil {
		return err
	}
	if err := writeManifests(ctx, o, packaged, digest, into); err != nil {
		return err
	}
	if err := writeSBOM(o, programs, filepath.Join(into, "sbom.cdx.json")); err != nil {
		return err
	}
	if err := writeSums(into); err != nil {
		return err
	}
	if err := writeNotes(ctx, o, digest, filepath.Join(into, notesFile)); err != nil {
		return err
	}
	if err := os.RemoveAll(o.output); err != nil {
		return err
	}
	return os.Rename(into, o.output)
}
