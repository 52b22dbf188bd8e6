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
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// MaxNote limits, in bytes, the message of a condition, the note of an Event and the
// text of an error in a log. The API accepts no longer notes.
const MaxNote = 1024

// escapes matches what a terminal interprets as a command rather than text: ECMA-48
// control sequences, and strings such as the one that sets the title of a window.
var escapes = regexp.MustCompile("(?:\x1b\\[|\u009b)[\\x30-\\x3f]*[\\x20-\\x2f]*[\\x40-\\x7e]|(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\x07\x1b\u009c]*(?:\x07|\x1b\\\\|\u009c)?|\x1b[\\x20-\\x2f]*[\\x30-\\x7e]")

// Text removes everything that is not text from a message: escape sequences, control
// characters, and format characters, which change the order of what is displayed.
// Messages of members, webhooks and policies may contain anything, and people read
// them in a terminal. Line breaks become spaces.
func Text(message string) string {
	if !strings.ContainsFunc(message, isIllegible) && utf8.ValidString(message) {
		return message
	}
	text := strings.Map(func(char rune) rune {
		switch {
		case unicode.IsSpace(char):
			return ' '
		case isIllegible(char):
			return -1
		}
		return char
	}, escapes.ReplaceAllString(message, ""))
	return strings.Join(strings.Fields(text), " ")
}

func isIllegible(char rune) bool { return !unicode.IsGraphic(char) }

// Fit makes a message legible and cuts it to a number of bytes, at a character
// boundary.
func Fit(message string, limit int) string {
	const ellipsis = "…"
	message = Text(message)
	if len(message) <= limit {
		return message
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + ellipsis
}

// ForRow makes a message legible and short enough for a row.
func ForRow(message string) string { return Fit(message, propagationv1alpha1.MaxMessageLength) }

// legibleError is an error with a text that is fit for a log.
type legibleError struct{ err error }

func (e *legibleError) Error() string { return Fit(e.err.Error(), MaxNote) }

func (e *legibleError) Unwrap() error { return e.err }

// Error makes the text of an error fit for a log. It returns nil for nil.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return &legibleError{err: err}
}
