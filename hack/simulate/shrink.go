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

package simulate

import (
	"slices"
	"testing"
	"time"
)

// shrink leaves out as many steps of a run as it can, so that it still fails in the same
// way, until a time has passed.
func shrink(t *testing.T, failed Result, budget time.Duration) Result {
	t.Helper()
	began := time.Now()
	for size := max(1, len(failed.Choices)/2); ; size = max(1, size/2) {
		shorter := false
		for from := 1; from < len(failed.Choices); {
			if time.Since(began) > budget {
				return failed
			}
			rest := slices.Concat(failed.Choices[:from], failed.Choices[min(from+size, len(failed.Choices)):])
			script := scripted(rest)
			script.theme = failed.Theme
			if again := run(t, script); again.Invariant == failed.Invariant {
				failed, shorter = again, true
			} else {
				from += size
			}
		}
		if size == 1 && !shorter {
			return failed
		}
	}
}
