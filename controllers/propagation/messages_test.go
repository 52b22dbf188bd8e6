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

package propagation

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
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
			if got := legible(tc.message); got != tc.want {
				t.Errorf("legible(%q) = %q, want %q", tc.message, got, tc.want)
			}
		})
	}
}

// checkMessage fails when a message is not fit for a status, an Event or a log.
func checkMessage(t rapid.TB, where, message string, limit int) {
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

// hostile draws what a member, a webhook or a policy may say.
func hostile() *rapid.Generator[string] {
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

func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		message, limit := hostile().Draw(t, "message"), rapid.IntRange(3, 300).Draw(t, "limit")
		got := fit(message, limit)
		checkMessage(t, "fit", got, limit)
		if plain := legible(message); len(plain) <= limit && got != plain {
			t.Errorf("a message that fits was changed from %q to %q", plain, got)
		}
		if again := fit(got, limit); again != got {
			t.Errorf("fit twice: %q, then %q", got, again)
		}
	})
}

// Whatever others say, and wherever it enters, each message of a status is legible
// and within its bound.
func TestMessagesOfAStatus(t *testing.T) {
	names := []string{"member1", "member2"}
	rapid.Check(t, func(t *rapid.T) {
		said := hostile().Draw(t, "said")
		refused := failed
		refused.Message = said
		quoted, _ := json.Marshal(said)
		sick := func(work *workv1alpha1.Work) {
			isConfirmed(work)
			work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
				Health: workv1alpha1.ResourceUnhealthy,
				Status: &runtime.RawExtension{Raw: []byte(`{"conditions":[{"type":"Ready","status":"False","reason":` + string(quoted) + `,"message":` + string(quoted) + `}]}`)},
			}}
		}
		scenes := []*Observed{
			scene(names, on("member1", conditions(dispatched, refused)), on("member2", sick)),
			scene(names, cluster("member1", Cluster{Exists: true, Message: said})),
			scene(names, problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound, Message: said})),
			scene(names, problem(Problem{Reason: propagationv1alpha1.ReasonResourceReadFailed, Message: said, Err: errors.New(said)})),
			scene(names, problem(Problem{Reason: propagationv1alpha1.ReasonRenderFailed, Message: said, Stalled: true})),
			scene(names, func(o *Observed) { o.Holders["member1"] = said }),
			scene(names, func(o *Observed) {
				o.Denials = map[string]Denial{"member1": {Reason: propagationv1alpha1.ReasonForbidden, Message: said}}
			}),
			scene(nil, deleting, on("member1", terminating(now)), cluster("member1", Cluster{Exists: true, Message: said})),
		}
		for _, observed := range scenes {
			status := statusOf(observed, Outcome{Failures: map[string]error{rapid.SampledFrom(names).Draw(t, "failing"): errors.New(said)}})
			for _, row := range status.Clusters {
				checkMessage(t, row.Reason, row.Message, propagationv1alpha1.MaxMessageLength)
			}
			for _, condition := range status.Conditions {
				checkMessage(t, condition.Type, condition.Message, maxNote)
			}
		}
	})
}

// An Event that is too long is refused by the API.
func TestEventsAreLegible(t *testing.T) {
	b := newBench(t, aShop()...)
	recorder := events.NewFakeRecorder(1)
	b.Recorder = recorder
	b.event(b.propagation(t), "Reason", "\x1b[31m"+strings.Repeat("long\n", 1000))
	checkMessage(t, "Event", strings.TrimPrefix(<-recorder.Events, "Warning Reason "), maxNote)
}

func TestErrorsAreLegibleInLogs(t *testing.T) {
	cause := errors.New("\x1b[31m" + strings.Repeat("long\n", 1000))
	got := loggable(reconcile.TerminalError(cause))
	checkMessage(t, "error", got.Error(), maxNote)
	if !errors.Is(got, cause) || !errors.Is(got, reconcile.TerminalError(nil)) {
		t.Error("what kind of error it is gets lost")
	}
	if loggable(nil) != nil {
		t.Error("no error becomes one")
	}
}
