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

package render_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// BenchmarkCachedWork measures the memory of a confirmed Work of a Deployment in the
// cache. Each Work is decoded separately, as a watch does: 5,000 Deployments on four
// clusters.
func BenchmarkCachedWork(b *testing.B) {
	const count, clusters = 20000, 4
	for b.Loop() {
		payloads := make([][]byte, 0, count)
		for i := range count {
			payloads = append(payloads, confirmedWork(b, i/clusters, i%clusters))
		}
		kept := make([]*workv1alpha1.Work, 0, count)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for _, payload := range payloads {
			work := &workv1alpha1.Work{}
			if err := json.Unmarshal(payload, work); err != nil {
				b.Fatal(err)
			}
			if _, err := render.Compact(work); err != nil {
				b.Fatal(err)
			}
			kept = append(kept, work)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "B/Work")
		runtime.KeepAlive(kept)
		runtime.KeepAlive(payloads)
	}
}

func confirmedWork(b *testing.B, object, cluster int) []byte {
	b.Helper()
	resource, owner := parse(b, deployment), owner
	owner.Name, owner.UID = fmt.Sprintf("web-%04d", object), types.UID(uuid.NewString())
	resource.SetName(owner.Name)
	resource.SetUID(types.UID(uuid.NewString()))
	manifest, err := render.NewManifest(resource, propagationv1alpha1.ConflictAbort)
	if err != nil {
		b.Fatal(err)
	}
	work, err := manifest.NewWork(owner, render.Target{Cluster: fmt.Sprintf("member%d", cluster), ReadySince: "2026-01-01T10:00:00Z"})
	if err != nil {
		b.Fatal(err)
	}
	work.UID, work.ResourceVersion, work.CreationTimestamp = types.UID(uuid.NewString()), "123456", metav1.Now()
	for kind, message := range map[string]string{
		workv1alpha1.WorkDispatching:           "Work is being dispatched to member clusters.",
		workv1alpha1.WorkApplied:               "Manifest has been successfully applied",
		propagationv1alpha1.WorkConditionReset: "Karmada Direct is waiting for the cluster to confirm the next write.",
	} {
		work.Status.Conditions = append(work.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "AppliedSuccessful", Message: message, LastTransitionTime: metav1.Now(),
		})
	}
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
		Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: owner.Name},
		Health:     workv1alpha1.ResourceHealthy,
	}}
	payload, err := json.Marshal(work)
	if err != nil {
		b.Fatal(err)
	}
	return payload
}
