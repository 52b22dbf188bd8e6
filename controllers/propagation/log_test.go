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
	"regexp"
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
	look("changed, member2 refused")
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

// TestLogTellsTheStory: the log tells an operator what happens: at verbosity 0 the
// state of objects and each failure once, at 2 also each write, at 4 also what each
// reconcile plans.
func TestLogTellsTheStory(t *testing.T) {
	const object = `"object"="DirectPropagation shop/web"`
	ready := func(status, reason string) string {
		return fmt.Sprintf(`"ready"=%q "reason"=%q`, status, reason)
	}
	for verbosity, extra := range map[int]struct{ writes, plans bool }{0: {}, 2: {writes: true}, 4: {writes: true, plans: true}} {
		t.Run(fmt.Sprintf("-v=%d", verbosity), func(t *testing.T) {
			told := journey(t, verbosity)
			all := []string{}
			for _, chapter := range []string{"created", "confirmed", "changed, member2 refused", "deleted"} {
				all = append(all, told[chapter]...)
			}
			count := func(want int, chapter string, all ...string) {
				t.Helper()
				if got := words(told[chapter], all...); got != want {
					t.Errorf("%s: %d lines with %q, want %d:\n%s", chapter, got, all, want, strings.Join(told[chapter], "\n"))
				}
			}
			times := func(is bool, count int) int {
				if is {
					return count
				}
				return 0
			}
			count(1, "created", object, "Ready changed", ready("False", propagationv1alpha1.ReasonApplying))
			count(1, "confirmed", object, "Ready changed", ready("True", propagationv1alpha1.ReasonPropagated))
			count(1, "changed, member2 refused", object, "refuses a write", "denied by a webhook", `"cluster"="member2"`, `"reason"="WriteFailed"`)
			count(1, "changed, member2 refused", object, "Ready changed", ready("False", propagationv1alpha1.ReasonWriteFailed))
			count(1, "deleted", object, "Ready changed", ready("False", propagationv1alpha1.ReasonDeleting))

			count(times(extra.writes, 2), "created", object, `"operation"="create"`, `"work"="karmada-es-member`, `"revision"="REVISION"`, `"reason"="WorkMissing"`)
			count(times(extra.writes, 1), "changed, member2 refused", object, `"operation"="reset"`, `"cluster"="member1"`, `"reason"="RevisionDiffers"`)
			count(times(extra.writes, 1), "changed, member2 refused", object, `"operation"="update"`, `"cluster"="member1"`, `"reason"="RevisionDiffers"`)
			count(times(extra.writes, 2), "deleted", object, `"operation"="delete"`, `"reason"="ObjectDeleted"`)

			count(times(extra.plans, 1), "created", object, "Planned", "create member1 (WorkMissing)", "create member2 (WorkMissing)")
			if planned := words(all, "Planned"); extra.plans != (planned > 5) {
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
