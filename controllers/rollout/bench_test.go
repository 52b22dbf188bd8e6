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

package rollout

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// large is an object on many clusters in 20 stages, in the middle of a rollout: half of
// the stages are done, and in the next one every cluster has a turn.
func large(count int) *Input {
	const stages = 20
	in := &Input{Now: epoch, Watched: time.Hour, UpdateRevision: "r2", Strategy: &Strategy{}}
	in.Status = &Status{Phase: Progressing, CurrentRevision: "r1", UpdateRevision: "r2"}
	for i := range stages {
		name := fmt.Sprintf("stage-%02d", i)
		in.Strategy.Stages = append(in.Strategy.Stages, Stage{Name: name, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": name}}})
		status := StageStatus{Name: name}
		if i < stages/2 {
			status.StartedAt, status.PassedAt = ptr.To(metav1.NewTime(epoch)), ptr.To(metav1.NewTime(epoch))
		}
		in.Status.Stages = append(in.Status.Stages, status)
	}
	turn := Turn{Revision: "r2", StartedAt: metav1.NewTime(epoch)}
	for i := range count {
		stage := i * stages / count
		c := Cluster{
			Name: fmt.Sprintf("cluster-%04d", i), Labels: map[string]string{"region": "eu", "stage": fmt.Sprintf("stage-%02d", stage)},
			Exists: true, Ready: true, Dispatched: true, Assigned: "r2", Confirmed: "r2", Applied: true, Health: propagationv1alpha1.HealthHealthy,
		}
		if stage == stages/2 {
			turn.ClusterNames = append(turn.ClusterNames, c.Name)
		}
		if stage >= stages/2 {
			c.Assigned, c.Confirmed = "r1", "r1"
		}
		in.Clusters = append(in.Clusters, c)
	}
	in.Status.Turns = []Turn{turn}
	return in
}

// BenchmarkDecide measures the cost of a decision in the middle of a rollout. Its time
// is proportional to the number of clusters.
func BenchmarkDecide(b *testing.B) {
	for _, count := range []int{500, 5000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			in := large(count)
			b.ReportAllocs()
			for b.Loop() {
				if decided, err := Decide(in); err != nil || decided.Status.Stage != "stage-10" {
					b.Fatal(err, decided.Status)
				}
			}
		})
	}
}
