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
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

// meddler changes every Work of member1 on its way to the API server, as a webhook
// does, until it is told to stop.
type meddler struct {
	change func(*workv1alpha1.Work)
	stops  bool
}

func (m *meddler) meddle(object client.Object) {
	if work, ok := object.(*workv1alpha1.Work); ok && !m.stops && work.Namespace == "karmada-es-member1" {
		m.change(work)
	}
}

// between puts the meddler between the controller and the API server.
func (m *meddler) between(b *bench) {
	inner, _ := b.Client.(client.WithWatch)
	b.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			m.meddle(object)
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			m.meddle(object)
			return c.Update(ctx, object, options...)
		},
	})
}

// TestWebhookThatChangesWorks: a Work that a webhook changes with every write is
// written only once in a while, not all the time, and the row says why.
func TestWebhookThatChangesWorks(t *testing.T) {
	for name, change := range map[string]func(*workv1alpha1.Work){
		"the manifest": func(work *workv1alpha1.Work) {
			manifest := &work.Spec.Workload.Manifests[0]
			manifest.Raw = []byte(strings.Replace(string(manifest.Raw), `"annotations":{`, `"annotations":{"example.org/injected":"yes",`, 1))
		},
		"the owner": func(work *workv1alpha1.Work) { delete(work.Annotations, propagationv1alpha1.OwnerNameAnnotation) },
		"the options": func(work *workv1alpha1.Work) {
			work.Spec.SuspendDispatching = new(bool)
			*work.Spec.SuspendDispatching = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, passive, webhook := newBench(t, aShop()...), clocktesting.NewFakePassiveClock(time.Now()), &meddler{change: change}
			b.Clock = passive
			webhook.between(b)
			for range 10 {
				if err := b.reconcile(t); err != nil {
					t.Fatal(err)
				}
				passive.SetTime(passive.Now().Add(10 * time.Second))
			}
			writes := slices.DeleteFunc(b.writes, func(write string) bool { return !strings.HasSuffix(write, "Work karmada-es-member1/web-56d6c779bb") })
			if len(writes) != 1 {
				t.Errorf("writes in less than two minutes: %v, want one", writes)
			}
			worst := b.propagation(t).Status.Clusters[0]
			if worst.Name != "member1" || worst.Reason != propagationv1alpha1.ReasonWriteFailed || worst.Message != decide.ErrChanged.Error() {
				t.Errorf("%s: %s: %s", worst.Name, worst.Reason, worst.Message)
			}
			webhook.stops = true
			passive.SetTime(passive.Now().Add(maxSetbackDelay))
			b.settle(t)
			b.confirm(t)
			b.settle(t)
			if worst := b.propagation(t).Status.Clusters[0]; worst.Reason != propagationv1alpha1.ReasonApplied {
				t.Errorf("without the webhook: %s: %s", worst.Reason, worst.Message)
			}
			if left := b.memories.of(web).refused(); len(left) > 0 {
				t.Errorf("setbacks that are still remembered: %v", left)
			}
		})
	}
}
