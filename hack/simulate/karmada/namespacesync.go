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
	"context"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/helper"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// skippedNamespaces is the default of --skipped-propagating-namespaces.
var skippedNamespaces = regexp.MustCompile("kube-.*")

// namespaceSync is the namespace sync controller: namespace.Controller.
type namespaceSync struct{ *process }

// runNamespaceSync adds the controller to karmada-controller-manager. Namespaces wake it,
// and all of them a new Cluster.
func (p *process) runNamespaceSync() {
	c := newController(p.name+"/namespace-sync", p.karmada.now, 1, true, namespaceSync{p}.begin)
	p.runners = append(p.runners, c)
	p.namespaces.handlers = append(p.namespaces.handlers, func(change change[*corev1.Namespace]) {
		c.queue.add(keyOf(change.object()))
	})
	p.clusters.handlers = append(p.clusters.handlers, func(change change[*clusterv1alpha1.Cluster]) {
		if change.created() {
			for _, namespace := range p.namespaces.all() {
				c.queue.add(keyOf(namespace))
			}
		}
	})
}

// isSynced reports whether Karmada puts a namespace on members.
func isSynced(namespace *corev1.Namespace) bool {
	name := namespace.Name
	skip := strings.EqualFold(namespace.Labels[policyv1alpha1.NamespaceSkipAutoPropagationLabel], "true")
	return !names.IsReservedNamespace(name) && name != names.NamespaceDefault && !skippedNamespaces.MatchString(name) &&
		namespace.DeletionTimestamp.IsZero() && !skip
}

func (s namespaceSync) begin(key types.NamespacedName) *step {
	return &step{name: "reads the Namespace", do: func(context.Context) (*step, error) {
		namespace, err := s.namespaces.get(key, "namespaces")
		if err != nil || !isSynced(namespace) {
			return nil, nil // the only error is that the Namespace is gone
		}
		namespace.SetGroupVersionKind(namespaceKind)
		return s.build(namespace, s.clusters.all(), nil)
	}}
}

// build is buildWorks, one cluster after the other instead of all at once. It writes for
// clusters that are terminating, too.
func (s namespaceSync) build(namespace *corev1.Namespace, clusters []*clusterv1alpha1.Cluster, errs []error) (*step, error) {
	if len(clusters) == 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	resource, err := helper.ToUnstructured(namespace)
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{
		Name:            names.GenerateWorkName(namespaceKind.Kind, namespace.Name, ""),
		Namespace:       names.GenerateExecutionSpaceName(clusters[0].Name),
		Finalizers:      []string{util.ExecutionControllerFinalizer},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(namespace, namespaceKind)},
		Annotations:     map[string]string{},
	}
	return s.createOrUpdateWork(meta, resource, func(err error) (*step, error) {
		if err != nil {
			errs = append(errs, err)
		}
		return s.build(namespace, clusters[1:], errs)
	}), nil
}
