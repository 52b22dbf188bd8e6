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
	"fmt"
	"os"
	"slices"
	"strings"
)

// startMark begins the line that a Process writes to its log at every start.
const startMark = "==== start"

// Tail returns the last lines of a file for which keep reports true, or simply the
// last lines if keep is nil. If the file cannot be read, it returns the reason.
func Tail(path string, count int, keep func(line string) bool) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	lines := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	if keep != nil {
		lines = slices.DeleteFunc(lines, func(line string) bool { return !keep(line) })
	}
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// LogSinceStart returns what the process has logged since its last start.
func (p *Process) LogSinceStart() (string, error) {
	content, err := os.ReadFile(p.Log)
	if err != nil {
		return "", fmt.Errorf("reading the log of %s: %w", p.Name, err)
	}
	text := string(content)
	return text[max(0, strings.LastIndex(text, startMark)):], nil
}
