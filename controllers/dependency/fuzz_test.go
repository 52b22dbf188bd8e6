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

package dependency

import (
	"strings"
	"testing"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/legible/legibletest"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// FuzzDependencies: whatever an interpreter reports, a reference can be read back from
// its key, and the status is one that the API server accepts.
func FuzzDependencies(f *testing.F) {
	for _, namespace := range []string{"shop", "other", ""} {
		f.Add("v1", "ConfigMap", namespace, "settings")
		f.Add("example.org/v1", "Gadget", namespace, "a.b")
		f.Add("a/b/c", "", namespace, "\x1b[31m"+strings.Repeat("x", 300))
		f.Add("", strings.Repeat("K", 64), namespace, "")
	}
	f.Fuzz(func(t *testing.T, apiVersion, kind, namespace, name string) {
		reported := configv1alpha1.DependentObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
		back := Reference(Key(reported))
		if wellFormed := !strings.Contains(kind+name, "/"); wellFormed && (back.APIVersion != apiVersion || back.Kind != kind || back.Name != name) {
			t.Errorf("%+v is read back as %+v", reported, back)
		}
		observed := &decide.Observed{
			Owner: render.Owner{Kind: "DirectPropagation", Namespace: "shop", Name: "web"}, TargetSet: map[string]bool{"member1": true},
			Spec:     &propagationv1alpha1.PropagationSpec{PropagateDeps: ptr.To(true)},
			Resource: decide.Resource{Dependencies: []configv1alpha1.DependentObjectReference{reported}},
		}
		for _, unready := range NewRequirements().Faring(observed).Unready {
			for field, limit := range map[string]int{unready.APIVersion: 317, unready.Kind: 63, unready.Name: 253, unready.Reason: 64, unready.Message: 256} {
				legibletest.Check(t, "unready", field, limit)
				if field == "" {
					t.Errorf("a field is empty: %+v", unready)
				}
			}
		}
	})
}
