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
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	testingclock "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// A cluster whose overrides set the replicas keeps them when its Work is adopted.
func TestAdoptionKeepsOverriddenReplicas(t *testing.T) {
	object := webPropagation()
	object.Spec.Clusters[1].Overriders = patch(policyv1alpha1.OverriderOpReplace, "/spec/replicas", "3")
	template := webDeployment()
	template.Generation = 1
	b := newBench(t, template, object, memberCluster("member1"), memberCluster("member2"))
	s := &stage{t: t, bench: b, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.Clock, s.started = s.clock, s.clock.Now()
	s.goesOn()
	object = s.propagation(t)
	object.Spec.Rollout, object.Generation = canaryFirst(), 2
	object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	if err := s.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.changeImage(t, "nginx:2")
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	if raw := string(s.workOn(t, "member2").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":3`) {
		t.Errorf("member2: %s", raw)
	}
	s.isUntouched("member2")
}

// A revert to what clusters had before the first rollout is recognized, although the
// resource has another generation by then.
func TestRevertToWhatWasAdopted(t *testing.T) {
	template := webDeployment()
	template.Generation = 1
	b := newBench(t, template, webPropagation(), memberCluster("member1"), memberCluster("member2"))
	s := &stage{t: t, bench: b, clock: testingclock.NewFakePassiveClock(time.Now())}
	s.Clock, s.started = s.clock, s.clock.Now()
	s.goesOn()
	object := s.propagation(t)
	object.Spec.Rollout, object.Generation = canaryFirst(), 2
	object.Spec.Rollout.Stages[0].Approval = propagationv1alpha1.RolloutApprovalRequired
	if err := s.server.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.changesTo("nginx:2")
	s.goesOn()
	s.images("nginx:2", "nginx:1")
	s.changesTo("nginx:1")
	s.goesOn()
	s.images("nginx:1", "nginx:1")
	if status := s.rollout(); status.Phase != propagationv1alpha1.RolloutPhaseCompleted {
		t.Errorf("the revert: %s %s current %s update %s", status.Phase, status.Progress, status.CurrentRevision, status.UpdateRevision)
	}
}

// changesTo changes the image as the API server would, with another generation.
func (s *stage) changesTo(image string) {
	deployment := &appsv1.Deployment{}
	if err := s.server.Get(s.t.Context(), web, deployment); err != nil {
		s.t.Fatal(err)
	}
	deployment.Generation++
	deployment.Spec.Template.Spec.Containers[0].Image = image
	if err := s.server.Update(s.t.Context(), deployment); err != nil {
		s.t.Fatal(err)
	}
	s.writes = nil
}
