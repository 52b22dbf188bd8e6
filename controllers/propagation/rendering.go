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
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/overridemanager"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// Rendering is what a cluster is to get of a resource.
type Rendering struct {
	// Revision is the revision of the manifest.
	Revision string
	// Manifest is nil when only the revision was needed and known.
	Manifest *render.Manifest
	// Overrides records the override policies that were applied.
	Overrides map[string]string
	// Reason and Message say why the cluster can get nothing; empty when it can.
	Reason, Message string
}

// on is what a cluster is to get.
func (r *Resource) on(cluster string) Rendering {
	if special, found := r.Renderings[cluster]; found {
		return special
	}
	return Rendering{Revision: r.Revision, Manifest: r.Manifest}
}

// renderingInputs is a fingerprint of all that renderings depend on beside the
// resource and the spec: a rendering that is remembered holds as long as this
// does not change. It is empty, as it mostly is, when there is nothing.
func (r *Reconciler) renderingInputs(ctx context.Context, observed *Observed) (string, error) {
	policies, err := r.overridePolicies(ctx, observed.Owner.Namespace)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	replicas := func(target propagationv1alpha1.TargetCluster) bool { return target.Replicas != nil }
	if ptr.Deref(observed.Spec.PropagateDeps, false) || slices.ContainsFunc(observed.Spec.Clusters, replicas) {
		fmt.Fprintln(sum, "interpreter", r.interpreterEpoch.Load())
	} else if len(policies) == 0 {
		return "", nil
	}
	for _, policy := range policies {
		fmt.Fprintln(sum, policy.GetUID(), policy.GetResourceVersion())
	}
	if len(policies) > 0 {
		for _, target := range observed.Targets {
			fmt.Fprintln(sum, target.Cluster, observed.Clusters[target.Cluster].Attributes)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// overridePolicies lists the policies that may concern resources of a
// namespace, or cluster-scoped ones when it is empty.
func (r *Reconciler) overridePolicies(ctx context.Context, namespace string) ([]client.Object, error) {
	policies := []client.Object{}
	everywhere := &policyv1alpha1.ClusterOverridePolicyList{}
	if err := r.Client.List(ctx, everywhere, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterOverridePolicies: %w", err)
	}
	for i := range everywhere.Items {
		policies = append(policies, &everywhere.Items[i])
	}
	if namespace != "" {
		here := &policyv1alpha1.OverridePolicyList{}
		if err := r.Client.List(ctx, here, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the OverridePolicies of namespace %s: %w", namespace, err)
		}
		for i := range here.Items {
			policies = append(policies, &here.Items[i])
		}
	}
	slices.SortFunc(policies, func(a, b client.Object) int { return cmp.Compare(a.GetUID(), b.GetUID()) })
	return policies, nil
}

// render makes the manifest that all clusters share, and one for each cluster
// that gets something of its own.
func (r *Reconciler) render(ctx context.Context, observed *Observed, template *unstructured.Unstructured) (Resource, error) {
	resource := Resource{UID: template.GetUID(), Version: template.GetResourceVersion(), ClaimedBy: claimOf(template)}
	manifest, err := r.manifestOf(observed, template)
	if err != nil {
		return Resource{}, err
	}
	resource.Manifest, resource.Revision = manifest, manifest.Revision
	if resource.Dependencies, err = r.dependenciesOf(observed, template); err != nil {
		return Resource{}, err
	}
	policies, err := r.overridePolicies(ctx, observed.Owner.Namespace)
	if err != nil {
		return Resource{}, err
	}
	own := map[string]*propagationv1alpha1.TargetCluster{}
	for i := range observed.Spec.Clusters {
		own[observed.Spec.Clusters[i].Name] = &observed.Spec.Clusters[i]
	}
	for _, target := range observed.Targets {
		asked := own[target.Cluster]
		special := asked != nil && (asked.Replicas != nil || asked.Overriders != nil)
		if !observed.Clusters[target.Cluster].Exists || !special && len(policies) == 0 {
			continue
		}
		if rendering, differs := r.renderFor(observed, template, target.Cluster, asked); differs {
			if resource.Renderings == nil {
				resource.Renderings = map[string]Rendering{}
			}
			resource.Renderings[target.Cluster] = rendering
		}
	}
	return resource, nil
}

func (r *Reconciler) manifestOf(observed *Observed, template *unstructured.Unstructured) (*render.Manifest, error) {
	return render.NewManifest(template, observed.Spec.ConflictResolution, r.LocalPrefixes...) //nolint:wrapcheck // it says all
}

// renderFor renders for one cluster, as Karmada's binding controller does:
// replicas first, then override policies, then what the spec itself overrides.
// It tells whether the cluster gets anything else than all others.
func (r *Reconciler) renderFor(observed *Observed, template *unstructured.Unstructured, cluster string, asked *propagationv1alpha1.TargetCluster) (Rendering, bool) {
	object := template.DeepCopy()
	if asked != nil && asked.Replicas != nil {
		var err error
		if object, err = r.reviseReplicas(object, *asked.Replicas); err != nil {
			return Rendering{Reason: propagationv1alpha1.ReasonRenderFailed, Message: fmt.Sprintf("spec.clusters, replicas of %s: %v", cluster, err)}, true
		}
	}
	records, err := r.override(object, cluster, asked)
	if err == nil {
		err = sameIdentity(template, object)
	}
	if err != nil {
		return Rendering{Reason: propagationv1alpha1.ReasonOverrideFailed, Message: err.Error()}, true
	}
	if len(records) == 0 && equality.Semantic.DeepEqual(template.Object, object.Object) {
		return Rendering{}, false
	}
	manifest, err := r.manifestOf(observed, object)
	if err != nil {
		return Rendering{Reason: propagationv1alpha1.ReasonOverrideFailed, Message: "after overrides: " + err.Error()}, true
	}
	return Rendering{Revision: manifest.Revision, Manifest: manifest, Overrides: records}, true
}

func (r *Reconciler) reviseReplicas(object *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	gvk := object.GroupVersionKind()
	if !r.Interpreter.HookEnabled(gvk, configv1alpha1.InterpreterOperationReviseReplica) {
		return nil, fmt.Errorf("Karmada's resource interpreter cannot revise the replicas of %s %s; leave replicas out, or write a ResourceInterpreterCustomization with replicaRevision", //nolint:staticcheck // a name begins it
			gvk.GroupVersion(), gvk.Kind)
	}
	revised, err := r.Interpreter.ReviseReplica(object, int64(replicas))
	if err != nil {
		return nil, fmt.Errorf("revising the replicas of %s %s: %w", gvk.Kind, object.GetName(), err)
	}
	return revised, nil
}

// override changes an object as policies and spec want it for a cluster, and
// returns the annotations that record the policies.
func (r *Reconciler) override(object *unstructured.Unstructured, cluster string, asked *propagationv1alpha1.TargetCluster) (map[string]string, error) {
	policy := &culprit{}
	byCluster, byNamespace, err := overridemanager.New(r.Client, policy).ApplyOverridePolicies(object, cluster)
	if err != nil {
		return nil, fmt.Errorf("%s%w", policy.prefix(), err)
	}
	records := map[string]string{}
	for key, applied := range map[string]*overridemanager.AppliedOverrides{util.AppliedClusterOverrides: byCluster, util.AppliedOverrides: byNamespace} {
		if applied == nil {
			continue
		}
		record, err := applied.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("recording the override policies: %w", err)
		}
		if record != nil {
			records[key] = string(record)
		}
	}
	if asked == nil || asked.Overriders == nil {
		return records, nil
	}
	inline := &inlinePolicy{Client: r.Client, overriders: *asked.Overriders}
	if _, _, err := overridemanager.New(inline, &culprit{}).ApplyOverridePolicies(object, cluster); err != nil {
		return nil, fmt.Errorf("spec.clusters, overriders of %s: %w", cluster, err)
	}
	return records, nil
}

// culprit remembers which override policy failed; only the Event that Karmada
// would make of it names the policy.
type culprit struct {
	record.FakeRecorder

	message string
}

// Eventf takes an Event down instead of sending it.
func (c *culprit) Eventf(_ runtime.Object, _, _, format string, arguments ...any) {
	c.message = fmt.Sprintf(format, arguments...)
}

func (c *culprit) prefix() string {
	if c.message == "" {
		return ""
	}
	return c.message + " "
}

// inlinePolicy presents the overriders of a spec to Karmada's override manager
// as the only policy there is.
type inlinePolicy struct {
	client.Client

	overriders policyv1alpha1.Overriders
}

// List answers a list of override policies.
func (p *inlinePolicy) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	spec := policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: p.overriders}}}
	// Cluster-scoped policies are asked for first, and for every resource.
	policies, ok := list.(*policyv1alpha1.ClusterOverridePolicyList)
	if ok {
		policies.Items = []policyv1alpha1.ClusterOverridePolicy{{Spec: spec}}
	}
	return nil
}

// sameIdentity tells, as an error, which part of a resource overrides have
// changed that is not theirs to change: Karmada finds the object on the member
// by it.
func sameIdentity(before, after *unstructured.Unstructured) error {
	for field, values := range map[string][2]string{
		"apiVersion":         {before.GetAPIVersion(), after.GetAPIVersion()},
		"kind":               {before.GetKind(), after.GetKind()},
		"metadata.name":      {before.GetName(), after.GetName()},
		"metadata.namespace": {before.GetNamespace(), after.GetNamespace()},
	} {
		if values[0] != values[1] {
			return fmt.Errorf("overrides must not change %s, here from %q to %q", field, values[0], values[1])
		}
	}
	switch {
	case !maps.Equal(reserved(before.GetLabels()), reserved(after.GetLabels())):
		return errors.New("overrides must not change labels of Karmada, those of karmada.io and its subdomains")
	case !maps.Equal(reserved(before.GetAnnotations()), reserved(after.GetAnnotations())):
		return errors.New("overrides must not change annotations of Karmada, those of karmada.io and its subdomains")
	case !slices.Equal(before.GetFinalizers(), after.GetFinalizers()):
		return errors.New("overrides must not change metadata.finalizers")
	}
	return nil
}

// reserved picks the labels or annotations that Karmada or this project acts on.
func reserved(values map[string]string) map[string]string {
	picked := map[string]string{}
	for key, value := range values {
		if domain, _, qualified := strings.Cut(key, "/"); qualified && isReservedGroup(domain) {
			picked[key] = value
		}
	}
	return picked
}

// isReservedGroup tells whether a group or a domain is Karmada's or our own.
func isReservedGroup(group string) bool {
	return group == "karmada.io" || strings.HasSuffix(group, ".karmada.io") || group == propagationv1alpha1.GroupName
}

// attributesOf are what override policies can select a cluster by.
func attributesOf(cluster *clusterv1alpha1.Cluster) string {
	return fmt.Sprint(cluster.Labels, cluster.Spec.Provider, cluster.Spec.Region, cluster.Spec.Zone, cluster.Spec.Zones)
}
