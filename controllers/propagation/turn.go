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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
)

const (
	// turnTime is how long one object may begin writes while objects of other namespaces
	// wait. On an overloaded API server, the writes for a single object take minutes, and a
	// few such objects would occupy all workers.
	turnTime = 2 * time.Second
	// maxSilence is how long the status may stay as it is while turns end early. Each
	// turn would otherwise cost a write of the status, on a server that has little time.
	maxSilence = time.Minute
)

// turn limits for how long an object may begin writes.
type turn struct {
	r         *Reconciler
	namespace string
	ends      time.Time
}

func (r *Reconciler) newTurn(namespace string) *turn {
	return &turn{r: r, namespace: namespace, ends: r.Clock.Now().Add(turnTime)}
}

// over reports whether it is somebody else's turn.
func (t *turn) over() bool {
	return t.r.othersWait != nil && t.r.Clock.Now().After(t.ends) && t.r.othersWait(t.namespace)
}

// parallel calls work(0) … work(count-1) concurrently, and returns when all calls are
// done. All reconciles share one limit. When the turn is over, it begins no further
// call, except the first one, so that each turn makes progress. It returns how many calls
// it has begun.
func (t *turn) parallel(count int, work func(int)) (begun int) {
	var group sync.WaitGroup
	for begun < count {
		t.r.writers <- struct{}{}
		if begun > 0 && t.over() {
			<-t.r.writers
			break
		}
		i := begun
		group.Go(func() {
			defer func() { <-t.r.writers }()
			work(i)
		})
		begun++
	}
	group.Wait()
	return begun
}

// conclude reports the result of a reconcile. After a turn that ended early, the object
// goes back to the queue with the priority that it had, mostly without a report. With a
// lower one, it would not get another turn while any namespace has changes.
func (r *Reconciler) conclude(ctx context.Context, object cached.Object, observed *decide.Observed, plan *decide.Plan, result *decide.Outcome) (ctrl.Result, error) {
	if !result.Interrupted {
		return r.report(ctx, object, observed, plan, result)
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if r.Clock.Now().Sub(r.memories.of(key).statusWritten) >= maxSilence {
		result.Due = r.Clock.Now()
		return r.report(ctx, object, observed, plan, result)
	}
	return ctrl.Result{RequeueAfter: soon}, nil
}
