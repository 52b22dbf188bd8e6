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

package decide

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// If a cluster has refused a Work, there is nothing that Karmada must see before it deletes the
// Work. If the connection broke, the cluster may have created the object nevertheless.
func TestRemovalOfWhatFailed(t *testing.T) {
	const prefix = "Failed to apply all manifests (0/1): "
	for message, want := range map[string]string{
		`ConfigMap "web" is invalid: data: Too long`:                                                                   "delete member2",
		`Internal error occurred: failed calling webhook "x.example.org": Post "https://x": connection refused`:        "delete member2",
		`Post "https://member2:6443/api/v1/namespaces/shop/configmaps": http2: client connection lost`:                 "look again in 35s",
		`Put "https://member2:6443/api/v1/namespaces/shop/configmaps/web": dial tcp 10.0.0.1:6443: i/o timeout`:        "look again in 35s",
		`stream error when reading response body, may be caused by closed connection. Please retry. Original error: x`: "look again in 35s",
	} {
		t.Run(message, func(t *testing.T) {
			refused := failed
			refused.Message, refused.LastTransitionTime = prefix+message, metav1.NewTime(now.Add(-30*time.Second))
			observed := scene(one, on("member1", isConfirmed), on("member2", conditions(dispatched, refused)), cluster("member2", readyCluster))
			if diff := cmp.Diff([]string{want}, steps(NewPlan(observed))); diff != "" {
				t.Errorf("NewPlan() (-want +got):\n%s", diff)
			}
		})
	}
}

// A cluster leaves once its Works are gone. Karmada would keep one to preserve whose object is
// missing, also if the object still names the cluster.
func TestWorkHoldsALeavingCluster(t *testing.T) {
	leaving := Cluster{Exists: true, Ready: true, Terminating: true, ReadySince: since}
	hangs := []func(*workv1alpha1.Work){preserve, withFinalizer, terminating(now.Add(-time.Minute))}
	for name, tc := range map[string]struct {
		observed *Observed
		want     []string
	}{
		"named":                {scene(one, preserving, on("member1", hangs...), cluster("member1", leaving)), []string{"nudge the deletion on member1", "look again in 3s"}},
		"named, nudged":        {scene(one, preserving, on("member1", append(hangs, ended(releaseNudges, time.Minute))...), cluster("member1", leaving)), []string{"release member1"}},
		"named, not hanging":   {scene(one, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(-10*time.Second))), cluster("member1", leaving)), []string{"look again in 10s"}},
		"named, to be removed": {scene(one, on("member1", withFinalizer, terminating(now.Add(-time.Minute))), cluster("member1", leaving)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, steps(NewPlan(tc.observed))); diff != "" {
				t.Errorf("NewPlan() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnansweredAttemptsBackOff: each attempt at a member that does not answer occupies one
// of Karmada's workers for 32 s, and delays all other clusters. The controller asks for such
// attempts less and less often.
func TestUnansweredAttemptsBackOff(t *testing.T) {
	observed := scene(one, on("member1", isUnanswered))
	work := observed.Work("member1")
	nudges := 0
	for observed.Now.Before(now.Add(time.Hour)) {
		plan := NewPlan(observed)
		if len(plan.Writes) == 0 {
			if plan.Wait == 0 {
				t.Fatal("nothing is planned")
			}
			observed.Now = observed.Now.Add(plan.Wait)
			continue
		}
		if !plan.Writes[0].Reset || !plan.Writes[0].Nudge {
			t.Fatalf("the plan is to %v", plan.Steps())
		}
		nudges++
		maps.Copy(work.Annotations, plan.Writes[0].AllNotes())
		ends := observed.Now.Add(32 * time.Second)
		work.Status.Conditions = append(ResetConditions(work, confirmedRevision(work), observed.Now), conditionAt(dispatched, observed.Now), conditionAt(applied, ends))
		observed.Now = ends
	}
	if nudges < 10 || nudges > 20 {
		t.Errorf("%d attempts in an hour, want 10 to 20", nudges)
	}
}
