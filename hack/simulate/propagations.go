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

package simulate

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
)

// propagationNames are the DirectPropagations, and the ClusterDirectPropagation.
var (
	propagationNames = []string{"one", "two", "three", clusterWide}
	clusterWide      = "everywhere"
)

// anObject returns an object with a name, without content.
func anObject(name string) cached.Object {
	if name == clusterWide {
		return &propagationv1alpha1.ClusterDirectPropagation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// aReference chooses what an object may name.
func (u *users) aReference(object cached.Object) propagationv1alpha1.ResourceReference {
	if object.GetNamespace() == "" {
		return oneOf(u.w.choices, roles)
	}
	return oneOf(u.w.choices, resources)
}

// begin creates every resource, and objects for some of them.
func (u *users) begin(ctx context.Context) error {
	if err := u.w.plane.Create(ctx, u.widgetDefinition()); err != nil {
		return fmt.Errorf("defining Widgets: %w", err)
	}
	for i := range len(resources) + len(roles) {
		object := named(roles[max(0, i-len(resources))], "")
		if i < len(resources) {
			object = named(resources[i], namespace)
		}
		if err := u.filled(object); err != nil {
			return err
		}
		if err := u.w.plane.Create(ctx, object); err != nil {
			return fmt.Errorf("creating a resource: %w", err)
		}
	}
	for i, name := range []string{"one", "two", clusterWide} {
		object := anObject(name)
		object.GetSpec().Resource = roles[0]
		if i < 2 {
			object.GetSpec().Resource = resources[i]
		}
		object.GetSpec().Clusters = listOfClusters(memberNames)
		if err := u.w.plane.Create(ctx, object); err != nil {
			return fmt.Errorf("creating an object: %w", err)
		}
	}
	return nil
}

func listOfClusters(names []string) []propagationv1alpha1.TargetCluster {
	clusters := []propagationv1alpha1.TargetCluster{}
	for _, name := range names {
		clusters = append(clusters, propagationv1alpha1.TargetCluster{Name: name})
	}
	return clusters
}

func (u *users) createPropagation(ctx context.Context) (string, error) {
	object := anObject(oneOf(u.w.choices, propagationNames))
	names := u.some()
	spec := object.GetSpec()
	spec.Resource, spec.Clusters = u.aReference(object), listOfClusters(names)
	if u.w.choices.oneIn(3) {
		spec.PropagateDeps = ptr.To(true)
	}
	return fmt.Sprintf("creates %s of %s %s to %v, with dependencies: %t", titleOf(object), spec.Resource.Kind, spec.Resource.Name,
		names, spec.PropagateDeps != nil), u.w.plane.Create(ctx, object) //nolint:wrapcheck // act wraps it
}

// change changes an object.
func (u *users) change(ctx context.Context, how func(object cached.Object, spec *propagationv1alpha1.PropagationSpec) string) (string, error) {
	return u.changeNamed(ctx, oneOf(u.w.choices, propagationNames), how)
}

// changeNamed changes the object with a name.
func (u *users) changeNamed(ctx context.Context, name string, how func(object cached.Object, spec *propagationv1alpha1.PropagationSpec) string) (string, error) {
	object := anObject(name)
	if err := u.w.plane.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return "changes " + titleOf(object), err //nolint:wrapcheck // act wraps it
	}
	what := how(object, object.GetSpec())
	return fmt.Sprintf("changes %s: %s", titleOf(object), what), u.w.plane.Update(ctx, object) //nolint:wrapcheck // act wraps it
}

func (u *users) changeClusters(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		names := u.some()
		spec.Clusters = listOfClusters(names)
		return fmt.Sprintf("clusters are %v", names)
	})
}

// zones are values of a label of Clusters.
var zones = []string{"east", "west"}

func (u *users) selectClusters(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		switch u.w.choices.below(3) {
		case 0:
			spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"zone": oneOf(u.w.choices, zones)}}
		case 1:
			spec.ClusterSelector = &metav1.LabelSelector{}
		default:
			spec.ClusterSelector = nil
			if len(spec.Clusters) == 0 {
				spec.Clusters = listOfClusters(u.some())
			}
			return "selects no clusters"
		}
		only := u.w.choices.oneIn(2)
		if only {
			spec.Clusters = nil
		}
		return fmt.Sprintf("selects clusters with %v, names none: %t", spec.ClusterSelector.MatchLabels, only)
	})
}

func (u *users) renameResource(ctx context.Context) (string, error) {
	return u.change(ctx, func(object cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.Resource = u.aReference(object)
		return "resource is " + spec.Resource.Kind + " " + spec.Resource.Name
	})
}

func (u *users) suspend(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		if spec.Suspension.Dispatching != nil || len(spec.Suspension.DispatchingOnClusters.ClusterNames) > 0 {
			spec.Suspension = propagationv1alpha1.Suspension{}
			return "not suspended"
		}
		spec.Suspension.Dispatching = ptr.To(true)
		return "suspended"
	})
}

func (u *users) suspendSome(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		names := u.some()
		spec.Suspension = propagationv1alpha1.Suspension{DispatchingOnClusters: propagationv1alpha1.SuspendClusters{ClusterNames: names}}
		return fmt.Sprintf("suspended on %v", names)
	})
}

func (u *users) preserve(ctx context.Context) (string, error) {
	return u.change(ctx, func(object cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.PreserveResourcesOnDeletion = ptr.To(!preserves(object))
		return fmt.Sprintf("preserveResourcesOnDeletion is %t", *spec.PreserveResourcesOnDeletion)
	})
}

// aTarget chooses a cluster that a spec names; nil if it names none.
func (u *users) aTarget(spec *propagationv1alpha1.PropagationSpec) *propagationv1alpha1.TargetCluster {
	if len(spec.Clusters) == 0 {
		return nil
	}
	return &spec.Clusters[u.w.choices.below(len(spec.Clusters))]
}

func (u *users) customize(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		target := u.aTarget(spec)
		if target == nil {
			return "nothing"
		}
		target.Replicas = nil
		if replicas := u.w.choices.below(4); replicas > 0 {
			target.Replicas = ptr.To(int32(replicas)) //nolint:gosec // it is small
		}
		return fmt.Sprintf("replicas of %s are %d", target.Name, ptr.Deref(target.Replicas, -1))
	})
}

// override gives a cluster an annotation of its own, or takes it away.
func (u *users) override(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		target := u.aTarget(spec)
		if target == nil {
			return "nothing"
		}
		if target.Overriders = nil; u.w.choices.oneIn(3) {
			return "no overriders for " + target.Name
		}
		u.count++
		target.Overriders = &policyv1alpha1.Overriders{
			AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{
				Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"own": fmt.Sprint(u.count)},
			}},
			LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{
				Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"cluster": target.Name},
			}},
		}
		return fmt.Sprintf("overriders for %s say %d", target.Name, u.count)
	})
}

func (u *users) changeResolution(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		if spec.ConflictResolution == propagationv1alpha1.ConflictOverwrite {
			spec.ConflictResolution = propagationv1alpha1.ConflictAbort
		} else {
			spec.ConflictResolution = propagationv1alpha1.ConflictOverwrite
		}
		return "conflictResolution is " + string(spec.ConflictResolution)
	})
}

func (u *users) followDependencies(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.PropagateDeps = ptr.To(!ptr.Deref(spec.PropagateDeps, false))
		return fmt.Sprintf("propagateDeps is %t", *spec.PropagateDeps)
	})
}

// accountName is the service account that objects act for.
const accountName = "deployer"

func (u *users) actFor(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		if spec.ServiceAccountName != "" {
			spec.ServiceAccountName = ""
			return "acts for nobody"
		}
		spec.ServiceAccountName = accountName
		return "acts for " + accountName
	})
}

func (u *users) aggregate(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		spec.AggregateStatus = ptr.To(!ptr.Deref(spec.AggregateStatus, true))
		return fmt.Sprintf("aggregateStatus is %t", *spec.AggregateStatus)
	})
}

func (u *users) requestRetry(ctx context.Context) (string, error) {
	return u.change(ctx, func(object cached.Object, _ *propagationv1alpha1.PropagationSpec) string {
		u.count++
		object.SetAnnotations(map[string]string{propagationv1alpha1.RetryAnnotation: fmt.Sprint(u.count)})
		return fmt.Sprintf("requests retry %d", u.count)
	})
}

func (u *users) deletePropagation(ctx context.Context) (string, error) {
	object := anObject(oneOf(u.w.choices, propagationNames))
	return "deletes " + titleOf(object), u.w.plane.Delete(ctx, object) //nolint:wrapcheck // act wraps it
}

// stripFinalizer removes all finalizers, as impatient people do.
func (u *users) stripFinalizer(ctx context.Context) (string, error) {
	return u.change(ctx, func(object cached.Object, _ *propagationv1alpha1.PropagationSpec) string {
		object.SetFinalizers(nil)
		return "no finalizers"
	})
}

// mistake names something that does not exist, or is not possible.
func (u *users) mistake(ctx context.Context) (string, error) {
	return u.change(ctx, func(_ cached.Object, spec *propagationv1alpha1.PropagationSpec) string {
		switch u.w.choices.below(7) {
		case 0:
			spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap", Name: "missing"}
		case 1:
			spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "nowhere.example.org/v1", Kind: "Gizmo", Name: "missing"}
		case 2:
			spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "Namespace", Name: namespace}
		case 3:
			spec.Resource = roles[1]
		case 4:
			spec.Clusters = append(spec.Clusters, propagationv1alpha1.TargetCluster{Name: "nowhere"})
			return "also names the cluster nowhere"
		case 5:
			spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: "Near"}}}
			return "selects clusters in an invalid way"
		case 6:
			if target := u.aTarget(spec); target != nil {
				target.Overriders = &policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: "/nothing/there", Operator: policyv1alpha1.OverriderOpRemove}}}
			}
			return "has an overrider that fails"
		}
		return "resource is " + spec.Resource.Kind + " " + spec.Resource.Name
	})
}
