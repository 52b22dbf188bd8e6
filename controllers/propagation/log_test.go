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
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// chronicle collects the lines of a log, without the parts that differ between
// runs.
type chronicle struct {
	lines []string
}

var (
	revisions = regexp.MustCompile(`[0-9a-f]{16}`)
	workNames = regexp.MustCompile(`web-[0-9a-z]{8,10}\b`)
)

// logger returns a logger that writes to the chronicle, up to a verbosity.
func (c *chronicle) logger(verbosity int) logr.Logger {
	return funcr.New(func(_, line string) {
		line = workNames.ReplaceAllString(revisions.ReplaceAllString(line, "REVISION"), "WORK")
		c.lines = append(c.lines, line)
	}, funcr.Options{Verbosity: verbosity})
}

// since returns the lines that were added since the last call.
func (c *chronicle) since() []string {
	lines := c.lines
	c.lines = nil
	return lines
}

// journey returns the log of the life cycle of an object, with a chapter for each
// thing that happens.
func journey(t *testing.T, verbosity int) map[string][]string {
	t.Helper()
	told, log := map[string][]string{}, &chronicle{}
	base := log.logger(verbosity)
	b := newBench(t, aShop()...)
	look := func(chapter string) {
		t.Helper()
		request := ctrl.Request{NamespacedName: web}
		ctx := logr.NewContext(t.Context(), logOf(base, b.Kind)(&request))
		for range 6 {
			b.memories.of(web).statusWritten = b.Clock.Now().Add(-detailInterval)
			if _, err := b.Reconcile(ctx, request); err != nil {
				base.Error(err, "Reconciler error")
			}
		}
		told[chapter] = append(told[chapter], log.since()...)
	}
	look("created")
	b.confirm(t)
	look("confirmed")
	b.changeImage(t, "nginx:2")
	b.refuse = func(write string) error {
		if strings.HasPrefix(write, "update Work karmada-es-member2") {
			return errors.New("denied by a webhook")
		}
		return nil
	}
	look(changeChapter)
	b.refuse = nil
	if err := b.server.Delete(t.Context(), webPropagation()); err != nil {
		t.Fatal(err)
	}
	look("deleted")
	return told
}

// words returns how many lines contain all of some words.
func words(lines []string, all ...string) int {
	count := 0
	for _, line := range lines {
		holds := true
		for _, word := range all {
			holds = holds && strings.Contains(line, word)
		}
		if holds {
			count++
		}
	}
	return count
}

// tells checks how many lines of a chapter contain all of some words.
func tells(t *testing.T, told map[string][]string, want int, chapter string, all ...string) {
	t.Helper()
	all = append(all, `"object"="DirectPropagation shop/web"`)
	if got := words(told[chapter], all...); got != want {
		t.Errorf("%s: %d lines with %q, want %d:\n%s", chapter, got, all, want, strings.Join(told[chapter], "\n"))
	}
}

const changeChapter = "changed, member2 refused"

// TestLogTellsTheStory: the log tells an operator what happens: at verbosity 0 the
// state of objects and each failure once, at 2 also each write, at 4 also what each
// reconcile plans.
func TestLogTellsTheStory(t *testing.T) {
	for verbosity, lines := range map[int]struct{ writes, plans int }{0: {}, 2: {writes: 1}, 4: {writes: 1, plans: 1}} {
		t.Run(fmt.Sprintf("-v=%d", verbosity), func(t *testing.T) {
			told := journey(t, verbosity)
			tellsStates(t, told)
			tellsWrites(t, told, lines.writes)
			tells(t, told, lines.plans, "created", "Planned", "create member1 (WorkMissing)", "create member2 (WorkMissing)")
			all := slices.Concat(slices.Collect(maps.Values(told))...)
			if planned := words(all, "Planned"); (lines.plans > 0) != (planned > 5) {
				t.Errorf("%d plans", planned)
			}
			if count := words(all, "nginx"); count > 0 {
				t.Errorf("%d lines contain content of the resource", count)
			}
			if verbosity == 0 && len(all) > 8 {
				t.Errorf("%d lines for four things that happened:\n%s", len(all), strings.Join(all, "\n"))
			}
		})
	}
}

// tellsStates checks the lines on each change of Ready and on each failure.
func tellsStates(t *testing.T, told map[string][]string) {
	t.Helper()
	ready := func(status, reason string) string {
		return fmt.Sprintf(`"ready"=%q "reason"=%q`, status, reason)
	}
	tells(t, told, 1, "created", "Ready changed", ready("False", propagationv1alpha1.ReasonApplying))
	tells(t, told, 1, "confirmed", "Ready changed", ready("True", propagationv1alpha1.ReasonPropagated))
	tells(t, told, 1, changeChapter, "refuses a write", "denied by a webhook", `"cluster"="member2"`, `"reason"="WriteFailed"`)
	tells(t, told, 1, changeChapter, "Ready changed", ready("False", propagationv1alpha1.ReasonWriteFailed))
	tells(t, told, 1, "deleted", "Ready changed", ready("False", propagationv1alpha1.ReasonDeleting))
}

// tellsWrites checks the lines on each write to a Work: so many for each write.
func tellsWrites(t *testing.T, told map[string][]string, each int) {
	t.Helper()
	tells(t, told, 2*each, "created", `"operation"="create"`, `"work"="karmada-es-member`, `"revision"="REVISION"`, `"reason"="WorkMissing"`)
	tells(t, told, each, changeChapter, `"operation"="reset"`, `"cluster"="member1"`, `"reason"="RevisionDiffers"`)
	tells(t, told, each, changeChapter, `"operation"="update"`, `"cluster"="member1"`, `"reason"="RevisionDiffers"`)
	tells(t, told, 2*each, "deleted", `"operation"="delete"`, `"reason"="ObjectDeleted"`)
}

// TestErrorsAreLoggedOnce: an error that persists is logged once, and retried
// anyway.
func TestErrorsAreLoggedOnce(t *testing.T) {
	b := newBench(t, aShop()...)
	request := ctrl.Request{NamespacedName: web}
	for _, tc := range []struct {
		err     error
		news    bool
		retried bool
	}{
		{errors.New("one"), true, true}, {errors.New("one"), false, true}, {errors.New("another"), true, true},
		{nil, false, false}, {errors.New("another"), true, true},
		{reconcile.TerminalError(errors.New("wrong")), true, true}, {reconcile.TerminalError(errors.New("wrong")), false, false},
	} {
		b.memories.of(web)
		result, err := b.onlyNews(request.NamespacedName, ctrl.Result{}, tc.err)
		if (err != nil) != tc.news {
			t.Errorf("%v: the error is %v, news: %t", tc.err, err, tc.news)
		}
		if retried := err != nil || result.Requeue; retried != tc.retried { //nolint:staticcheck // deprecated, and what is tested
			t.Errorf("%v: retried %t, want %t", tc.err, retried, tc.retried)
		}
	}
}

// TestLogKeys: every line has the same keys.
func TestLogKeys(t *testing.T) {
	log := &chronicle{}
	logOf(log.logger(0), "ClusterDirectPropagation")(&reconcile.Request{NamespacedName: client.ObjectKey{Name: "role"}}).Info("said")
	logOf(log.logger(0), "ClusterDirectPropagation")(nil).Info("said")
	want := []string{`"level"=0 "msg"="said" "object"="ClusterDirectPropagation role"`, `"level"=0 "msg"="said" "controller"="clusterdirectpropagation"`}
	if diff := cmp.Diff(want, log.since()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// BenchmarkLog measures what the log adds to a reconcile that writes two Works. A
// write itself takes milliseconds.
func BenchmarkLog(b *testing.B) {
	observed := observedOn("member1", "member2")
	plan, status := decide.NewPlan(observed), decide.NewStatus(observed, &decide.Outcome{})
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member1", Name: "web-5db7ffbd9d"}}
	if _, err := render.Compact(work); err != nil {
		b.Fatal(err)
	}
	loggers := map[string]logr.Logger{"no log": logr.Discard()}
	for _, verbosity := range []int{0, 2, 4} {
		loggers[fmt.Sprintf("-v=%d", verbosity)] = funcr.New(func(string, string) {}, funcr.Options{Verbosity: verbosity})
	}
	for _, name := range []string{"no log", "-v=0", "-v=2", "-v=4"} {
		b.Run(name, func(b *testing.B) {
			request := reconcile.Request{NamespacedName: web}
			loggerOf := logOf(loggers[name], "DirectPropagation")
			b.ReportAllocs()
			for b.Loop() {
				ctx := logr.NewContext(b.Context(), loggerOf(&request))
				logPlan(ctx, plan)
				for range plan.Writes {
					logWrite(ctx, "update", work, decide.RevisionDiffers)
				}
				logReady(ctx, status, status)
			}
		})
	}
}
