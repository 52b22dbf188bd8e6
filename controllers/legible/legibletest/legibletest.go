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

// Package legibletest checks messages against what package legible guarantees.
package legibletest

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Hostile draws a message that a member, a webhook or a policy may return.
func Hostile() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.StringN(0, 50, 200), rapid.StringN(300, 2000, 4000),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 60), func(raw []byte) string { return string(raw) }),
		rapid.SampledFrom([]string{
			"\x1b[31m", "\x1b]0;x\x07", "\u202e", "\u200f", "\n", "\r", "\t", "\x00", "\u2028", "\ue000", "€",
			`namespaces "`, `" not found`, ` is invalid: `, `is forbidden: exceeded quota: `,
		}),
	)
	return rapid.Map(rapid.SliceOfN(piece, 1, 6), func(pieces []string) string { return strings.Join(pieces, "") })
}

// Check fails if a message is not fit for a status, an Event or a log.
func Check(t rapid.TB, where, message string, limit int) {
	t.Helper()
	if len(message) > limit || !utf8.ValidString(message) {
		t.Errorf("%s: %d bytes of %d, valid: %t", where, len(message), limit, utf8.ValidString(message))
	}
	for _, char := range message {
		if unicode.In(char, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) {
			t.Errorf("%s: %q holds %U", where, message, char)
		}
	}
}
