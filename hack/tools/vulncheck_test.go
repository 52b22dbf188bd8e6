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

package tools_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// A scan that cannot reach the database must not look like one that found nothing.
func TestVulncheckWithoutDatabase(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		environment []string
		exit        int
		says        string
	}{
		{"by default", nil, 75, "SKIPPED: the vulnerability database"},
		{"where it is optional", []string{"VULNCHECK=optional", "GITHUB_ACTIONS=true"}, 75, "SKIPPED: the vulnerability database"},
		{"where it is required", []string{"VULNCHECK=required"}, 1, "cannot be reached, and VULNCHECK is required"},
		{"in GitHub Actions", []string{"GITHUB_ACTIONS=true"}, 1, "cannot be reached, and VULNCHECK is required"},
		{"with a mode that does not exist", []string{"VULNCHECK=sometimes"}, 2, "want required or optional"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), "./vulncheck.sh")
			// A missing folder is as unreachable as a server without a network.
			command.Env = append(command.Environ(), "GITHUB_ACTIONS=", "VULNCHECK=", "VULNDB=file:///nowhere")
			command.Env = append(command.Env, test.environment...)
			printed, err := command.CombinedOutput()
			exit := &exec.ExitError{}
			if !errors.As(err, &exit) || exit.ExitCode() != test.exit || !strings.Contains(string(printed), test.says) {
				t.Errorf("it exited with %v and printed %q; want exit status %d and %q", err, printed, test.exit, test.says)
			}
		})
	}
}
