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
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// semantic matches what is a version for Helm and, as a tag, for registries. These
// have no "+".
var semantic = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// releaseVersion turns what `git describe` prints without a tag, which is no version,
// into one.
func releaseVersion(described string) string {
	if semantic.MatchString(described) {
		return described
	}
	return "v0.0.0-g" + regexp.MustCompile(`[^0-9A-Za-z]+`).ReplaceAllString(described, "-")
}

// checkTag compares everything that has to agree when a release is published.
func checkTag(ctx context.Context, o order) error {
	if changes, err := git(ctx, o.root, "status", "--porcelain"); err != nil || changes != "" {
		return errors.Join(fmt.Errorf("the working tree has changes:\n%s", changes), err)
	}
	if tagged, err := git(ctx, o.root, "rev-parse", "--verify", "--quiet", "refs/tags/"+o.version+"^{commit}"); err != nil || strings.TrimSpace(tagged) != o.commit {
		return errors.Join(fmt.Errorf("commit %s is not tagged with %s", o.commit, o.version), err)
	}
	for file, line := range map[string]string{
		"charts/direct-propagation/Chart.yaml": "version: " + strings.TrimPrefix(o.version, "v") + "\nappVersion: " + o.version + "\n",
		"CHANGELOG.md":                         "\n## [" + strings.TrimPrefix(o.version, "v") + "] - ",
	} {
		content, err := os.ReadFile(filepath.Join(o.root, file))
		if err != nil {
			return err
		}
		if !strings.Contains(string(content), line) {
			return fmt.Errorf("%s does not contain %q", file, strings.TrimSpace(line))
		}
	}
	return nil
}

func git(ctx context.Context, root string, arguments ...string) (string, error) {
	return output(exec.CommandContext(ctx, "git", append([]string{"-C", root}, arguments...)...))
}

// output runs a command and returns what it prints. The error contains what it
// prints to its standard error.
func output(command *exec.Cmd) (string, error) {
	printed, err := command.Output()
	exit := &exec.ExitError{}
	if errors.As(err, &exit) {
		return string(printed), fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, exit.Stderr)
	}
	return string(printed), err
}
