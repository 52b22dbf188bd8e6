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

package karmada

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
)

// operations are what happens in histories, by name.
var operations = map[string]func(*side){
	"two":       func(s *side) { s.becomes(configMap("two")) },
	"three":     func(s *side) { s.becomes(configMap("three")) },
	"unlabeled": func(s *side) { s.becomes(configMap("one")) },
	"web2":      func(s *side) { s.becomes(deployment("web:2")) },
	"selector": func(s *side) {
		web := deployment("web:3")
		s.must(unstructured.SetNestedField(web.Object, "other", "spec", "selector", "matchLabels", "app"))
		s.becomes(web)
	},
	"reset":   func(s *side) { s.resets(s.key) },
	"suspend": func(s *side) { s.sets(func(spec *workv1alpha1.WorkSpec) { spec.SuspendDispatching = ptr.To(true) }) },
	"resume":  func(s *side) { s.sets(func(spec *workv1alpha1.WorkSpec) { spec.SuspendDispatching = ptr.To(false) }) },
	"preserve": func(s *side) {
		s.sets(func(spec *workv1alpha1.WorkSpec) { spec.PreserveResourcesOnDeletion = ptr.To(true) })
	},
	"delete": func(s *side) { s.must(s.c.Delete(s.ctx, s.work(s.key))) },
	"refuse": func(s *side) {
		s.member.Refuse = func(string, *unstructured.Unstructured) error { return errors.New("not today") }
	},
	"permit":  func(s *side) { s.member.Refuse = nil },
	"cut":     func(s *side) { s.member.Cut() },
	"foreign": func(s *side) { s.must(s.member.Create(configMap("foreign"))) },
	"lose":    func(s *side) { s.must(s.member.Delete(settingsKey)) },
	"unmark": func(s *side) {
		s.must(s.member.Edit(settingsKey, func(object *unstructured.Unstructured) { object.SetLabels(nil) }))
	},
	"mark": func(s *side) {
		s.must(s.member.Edit(settingsKey, func(object *unstructured.Unstructured) {
			labels, annotations := object.GetLabels(), object.GetAnnotations()
			labels["here"], annotations["here"] = "yes", "yes"
			object.SetLabels(labels)
			object.SetAnnotations(annotations)
		}))
	},
	"finalizer": func(s *side) {
		s.must(s.member.Edit(settingsKey, func(object *unstructured.Unstructured) { object.SetFinalizers([]string{"example.org/stay"}) }))
	},
	"notready": func(s *side) { s.declares(metav1.ConditionFalse) },
	"ready":    func(s *side) { s.declares(metav1.ConditionTrue) },
	"leave":    func(s *side) { s.must(s.c.Delete(s.ctx, s.cluster(s.member.Name))) },
}

// becomes changes the manifest of the Work.
func (s *side) becomes(resource *unstructured.Unstructured) {
	s.Helper()
	s.changes(s.key, func(work *workv1alpha1.Work) { setManifest(s.T, work, resource, 2) })
}

// sets changes the rest of the spec of the Work.
func (s *side) sets(set func(*workv1alpha1.WorkSpec)) {
	s.Helper()
	s.changes(s.key, func(work *workv1alpha1.Work) { set(&work.Spec) })
}

// declares sets the condition Ready of the cluster.
func (s *side) declares(ready metav1.ConditionStatus) {
	s.Helper()
	cluster := s.cluster(s.member.Name)
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: clusterv1alpha1.ClusterConditionReady, Status: ready, Reason: "Declared"})
	s.must(s.c.Status().Update(s.ctx, cluster))
}

// history is what happens to a Work: the operations before it is created, and after.
type history struct {
	resource *unstructured.Unstructured
	before   []string
	then     string
}

// histories are what the model and the original go through.
func histories() map[string]history {
	settings, labeled, overwriting := configMap("one"), configMap("one"), configMap("one")
	labeled.SetLabels(map[string]string{"mine": "yes"})
	overwriting.SetAnnotations(map[string]string{workv1alpha2.ResourceConflictResolutionAnnotation: workv1alpha2.ResourceConflictResolutionOverwrite})
	widget := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": "large"}}}
	widget.SetGroupVersionKind(widgetKind.GroupVersionKind)
	widget.SetNamespace("shop")
	widget.SetName("one")
	return map[string]history{
		"an update and a deletion":                    {settings, nil, "two delete"},
		"a reset and an update":                       {settings, nil, "reset two reset resume"},
		"labels that go":                              {labeled, nil, "mark unlabeled delete"},
		"a workload":                                  {deployment("web:1"), nil, "web2 selector reset web2 delete"},
		"a suspension":                                {settings, nil, "suspend two resume suspend lose resume delete"},
		"a suspension at the end":                     {settings, nil, "suspend delete"},
		"a refused creation":                          {settings, []string{"refuse"}, "two permit three delete"},
		"a refused update":                            {settings, nil, "refuse two permit three"},
		"a refused deletion of nothing":               {settings, []string{"refuse"}, "delete"},
		"an unserved kind":                            {widget, nil, "suspend resume delete"},
		"an object of somebody else":                  {settings, []string{"foreign"}, "two delete"},
		"an object of somebody else that is taken":    {overwriting, []string{"foreign"}, "suspend resume delete"},
		"an object that is preserved":                 {settings, nil, "preserve delete"},
		"an object that is preserved with its marks":  {labeled, nil, "mark preserve delete"},
		"an object that is preserved, but missing":    {settings, nil, "preserve lose delete"},
		"an object that is preserved, but unmarked":   {settings, nil, "preserve unmark delete"},
		"an object that is preserved, not Ready":      {settings, nil, "preserve notready delete"},
		"an object that is unmarked":                  {settings, nil, "unmark delete"},
		"an object that is missing":                   {settings, nil, "lose delete"},
		"an object with a finalizer":                  {settings, nil, "finalizer two delete"},
		"a member that is cut off":                    {settings, nil, "cut two delete"},
		"a cluster that is not Ready":                 {settings, nil, "notready two ready three notready delete ready"},
		"a cluster that is not Ready from the start":  {settings, []string{"notready"}, "suspend resume ready two"},
		"a cluster that leaves":                       {settings, nil, "leave delete"},
		"a cluster that leaves without being Ready":   {settings, nil, "notready leave two delete"},
		"a cluster that leaves, the object preserved": {settings, nil, "preserve notready leave delete"},
	}
}
