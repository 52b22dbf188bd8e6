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
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// BenchmarkDecide measures the cost of each reconcile of an object without its
// reads. Reconciles repeat while clusters report.
func BenchmarkDecide(b *testing.B) {
	for _, count := range []int{100, 1000, 5000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			clusters, options := make([]string, count), make([]sceneOption, 0, count)
			for i := range clusters {
				name := "played-" + strconv.Itoa(i)
				clusters[i] = name
				options = append(options, on(name, func(work *workv1alpha1.Work) {
					if i%2 == 0 {
						work.Status.Conditions = []metav1.Condition{
							{Type: workv1alpha1.WorkDispatching, Status: metav1.ConditionTrue},
							{Type: workv1alpha1.WorkApplied, Status: metav1.ConditionTrue},
						}
					}
				}))
			}
			observed := scene(clusters, options...)
			for b.Loop() {
				observed.Target()
				NewPlan(observed)
				NewStatus(observed, &Outcome{})
			}
		})
	}
}
