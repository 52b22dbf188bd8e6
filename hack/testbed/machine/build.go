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

package machine

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root returns the root folder of the repository that contains the working folder.
func Root(ctx context.Context) (string, error) {
	module, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(module))), nil
}

// Build compiles a main package to a program. The target is a package path as in go
// build, relative to the folder. The error contains the compiler's output.
func Build(ctx context.Context, folder, target, program string, flags ...string) error {
	arguments := append(append([]string{"build"}, flags...), "-o", program, target)
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = folder
	if printed, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", filepath.Base(program), err, printed)
	}
	return nil
}

// BuildController compiles the controller of a repository.
func BuildController(ctx context.Context, root, program string, flags ...string) error {
	return Build(ctx, root, "./cmd/controller-manager", program, flags...)
}
