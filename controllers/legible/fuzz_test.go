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
	"strings"
	"testing"

	"github.com/karmada-direct/karmada-direct/controllers/legible/legibletest"
)

// FuzzFit: whatever others send, the message fits, is legible, and is changed no
// further.
func FuzzFit(f *testing.F) {
	for _, message := range []string{
		"3 of 4 ready", "名前空間が見つかりません ☃", "\x1b[1;31mdenied\x1b[0m", "\x1b]0;owned\x07denied\x1b]8;;http://x\x1b\\", "denied\x1b[3",
		"\u009b2Jdenied\u009d0;owned\u009c", "user \u202etoor\u202c\u2066x\u2069", "caf\xe9", "one\r\n\ttwo\u2028three\n", strings.Repeat("€", 400),
	} {
		f.Add(message, 256)
		f.Add(message, 4)
	}
	f.Fuzz(func(t *testing.T, message string, limit int) {
		limit = max(3, min(limit, MaxNote))
		got := Fit(message, limit)
		legibletest.Check(t, "fit", got, limit)
		if again := Fit(got, limit); again != got {
			t.Errorf("fit twice: %q, then %q", got, again)
		}
		if plain := Text(message); len(plain) <= limit && got != plain {
			t.Errorf("a message that fits was changed from %q to %q", plain, got)
		}
	})
}
