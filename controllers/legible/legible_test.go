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

package legible

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karmada-direct/karmada-direct/controllers/legible/legibletest"
)

func TestLegible(t *testing.T) {
	for name, tc := range map[string]struct{ message, want string }{
		"plain":                   {"3 of 4 ready; see: \"web\"", "3 of 4 ready; see: \"web\""},
		"other scripts":           {"名前空間が見つかりません – ежели ☃", "名前空間が見つかりません – ежели ☃"},
		"two spaces stay":         {"a  b", "a  b"},
		"lines":                   {"one\r\n\ttwo\u2028three\n", "one two three"},
		"colors":                  {"\x1b[1;31mdenied\x1b[0m", "denied"},
		"title of a window":       {"\x1b]0;owned\x07denied\x1b]8;;http://x\x1b\\", "denied"},
		"a sequence without end":  {"denied\x1b[3", "denied3"},
		"eight-bit sequences":     {"\u009b2Jdenied\u009d0;owned\u009c", "denied"},
		"bell, backspace, delete": {"de\x07n\x08ie\x7fd\x00", "denied"},
		"change of direction":     {"user \u202etoor\u202c\u2066x\u2069", "user toorx"},
		"no width":                {"ad\u200bmin\ufeff\u00ad", "admin"},
		"tags and private use":    {"a\U000e0041b\ue000", "ab"},
		"broken encoding":         {"caf\xe9", "caf\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Text(tc.message); got != tc.want {
				t.Errorf("legible(%q) = %q, want %q", tc.message, got, tc.want)
			}
		})
	}
}

func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		message, limit := legibletest.Hostile().Draw(t, "message"), rapid.IntRange(3, 300).Draw(t, "limit")
		got := Fit(message, limit)
		legibletest.Check(t, "fit", got, limit)
		if plain := Text(message); len(plain) <= limit && got != plain {
			t.Errorf("a message that fits was changed from %q to %q", plain, got)
		}
		if again := Fit(got, limit); again != got {
			t.Errorf("fit twice: %q, then %q", got, again)
		}
	})
}

func TestErrorsAreLegibleInLogs(t *testing.T) {
	cause := errors.New("\x1b[31m" + strings.Repeat("long\n", 1000))
	got := Error(reconcile.TerminalError(cause))
	legibletest.Check(t, "error", got.Error(), MaxNote)
	if !errors.Is(got, cause) || !errors.Is(got, reconcile.TerminalError(nil)) {
		t.Error("what kind of error it is gets lost")
	}
	if Error(nil) != nil {
		t.Error("no error becomes one")
	}
}
