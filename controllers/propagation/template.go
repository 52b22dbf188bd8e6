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
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/legible"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// aggregation is what was last aggregated onto a resource.
type aggregation struct {
	// fingerprint identifies what the clusters reported, the configuration of the
	// interpreter and the version of the resource.
	fingerprint string
	// at is when the status was last written; the zero time if it was always right.
	at time.Time
	// failures counts the failed attempts since the last one that succeeded, and said
	// is the last error.
	failures int
	said     string
}

// failed records how an attempt ended. It returns when to try again, and whether the
// error is another one than before.
func (a *aggregation) failed(err error) (delay time.Duration, news bool) {
	if err == nil {
		a.failures, a.said = 0, ""
		return 0, false
	}
	news, a.said = a.said != err.Error(), err.Error()
	a.failures++
	return min(retryLimit, setbackDelay<<min(a.failures-1, 16)), news
}

// aggregate writes what the clusters report onto the resource in the control plane,
// as Karmada does for the resources of its policies: kubectl rollout status and the
// health checks of GitOps tools look there. It returns how long to wait if it is
// too early to write again.
//
// All Works of the resource count, not only those of the object: several objects
// may send one resource to different clusters, and must not overwrite each other's
// status.
func (r *Reconciler) aggregate(ctx context.Context, object cached.Object, observed *decide.Observed) (time.Duration, error) {
	reference, resource := observed.Spec.Resource, observed.Resource
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	if !r.aggregates(observed, gvk) {
		return 0, nil
	}
	key := client.ObjectKeyFromObject(object)
	items, cut, err := r.reports(observed)
	reported := slices.ContainsFunc(items, func(item workv1alpha2.AggregatedStatusItem) bool { return item.Status != nil })
	if err != nil || !reported {
		return 0, err
	}
	failure := r.failedRollout(observed, gvk)
	fingerprint, err := fingerprintOf(items, r.Interpreter.Epoch(), resource.Version+failure)
	if err != nil {
		return 0, err
	}
	last := r.memories.of(key).aggregation
	if last.fingerprint == fingerprint {
		return 0, nil
	}
	if early := statusInterval - r.Clock.Since(last.at); !last.at.IsZero() && early > 0 {
		return early, nil
	}
	whole, err := r.complete(ctx, items, cut)
	if err != nil {
		return 0, err
	}
	version, err := r.writeTemplate(ctx, gvk, types.NamespacedName{Namespace: key.Namespace, Name: reference.Name}, resource.Version, whole, failure)
	if err != nil {
		return 0, err
	}
	if version != resource.Version {
		last.at = r.Clock.Now()
		r.memories.of(key).rewrote(resource.Version, version)
		if fingerprint, err = fingerprintOf(items, r.Interpreter.Epoch(), version+failure); err != nil {
			return 0, err
		}
	}
	last.fingerprint = fingerprint
	r.memories.of(key).aggregation = last
	return 0, nil
}

// aggregates reports whether the status of the resource is ours to write.
func (r *Reconciler) aggregates(observed *decide.Observed, gvk schema.GroupVersionKind) bool {
	return !r.KeepTemplateStatus && !observed.Deleting && observed.Resource.Problem == nil && observed.Resource.ClaimedBy == "" &&
		ptr.Deref(observed.Spec.AggregateStatus, true) && r.Interpreter.HookEnabled(gvk, configv1alpha1.InterpreterOperationAggregateStatus)
}

// reports returns what the clusters report about a resource, in the form in which
// Karmada's bindings collect it. It also returns, by cluster, the Works whose
// status is too large for the cache; in the reports of these, a hash replaces the
// status.
func (r *Reconciler) reports(observed *decide.Observed) ([]workv1alpha2.AggregatedStatusItem, map[string]*workv1alpha1.Work, error) {
	reference := observed.Spec.Resource
	name := render.WorkKey("", reference.Kind, observed.Owner.Namespace, reference.Name).Name
	works, err := r.worksOf(cached.WorkNameKey(name))
	if err != nil {
		return nil, nil, fmt.Errorf("finding the Works of %s %s: %w", reference.Kind, reference.Name, err)
	}
	items, cut := make([]workv1alpha2.AggregatedStatusItem, 0, len(works)), map[string]*workv1alpha1.Work{}
	for _, work := range works {
		if work.DeletionTimestamp != nil || render.TemplateUID(work) != observed.Resource.UID {
			continue
		}
		item := reportOf(work)
		if item.Applied && render.IsCut(&work.Status.ManifestStatuses[0]) {
			cut[item.ClusterName] = work
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b workv1alpha2.AggregatedStatusItem) int { return cmp.Compare(a.ClusterName, b.ClusterName) })
	return items, cut, nil
}

// reportOf returns what one cluster reports. While a change is on its way, the
// previous report still counts, because it names the generation that it is about.
func reportOf(work *workv1alpha1.Work) workv1alpha2.AggregatedStatusItem {
	item := workv1alpha2.AggregatedStatusItem{ClusterName: render.ClusterOf(work.Namespace), Health: workv1alpha2.ResourceUnknown}
	if proof, condition := decide.EvidenceOf(work); proof == decide.Refused {
		item.AppliedMessage = legible.Fit(condition.Message, legible.MaxNote)
	} else if len(work.Status.ManifestStatuses) > 0 {
		status := &work.Status.ManifestStatuses[0]
		item.Applied, item.Status, item.Health = true, status.Status, workv1alpha2.ResourceHealth(status.Health)
	}
	return item
}

// complete reads the reports that are too large for the cache. It is called only
// when something has changed and may be written now.
func (r *Reconciler) complete(ctx context.Context, items []workv1alpha2.AggregatedStatusItem, cut map[string]*workv1alpha1.Work) ([]workv1alpha2.AggregatedStatusItem, error) {
	whole := slices.Clone(items)
	for i := range whole {
		work := cut[whole[i].ClusterName]
		if work == nil {
			continue
		}
		full := &workv1alpha1.Work{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(work), full); err != nil {
			return nil, fmt.Errorf("reading Work %s/%s: %w", work.Namespace, work.Name, err)
		}
		whole[i] = reportOf(full)
	}
	return whole, nil
}

func fingerprintOf(items []workv1alpha2.AggregatedStatusItem, epoch int64, version string) (string, error) {
	content, err := json.Marshal(items)
	if err != nil {
		return "", fmt.Errorf("encoding what clusters report: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(content, " %d %s", epoch, version))
	return hex.EncodeToString(sum[:8]), nil
}

// writeTemplate aggregates onto the resource and writes it if it differs. It
// returns the version of the resource that its own write produced, or the given
// version if there was nothing to write or the resource has changed since it was
// observed. failure is why a rollout of the resource has failed; empty if none has.
func (r *Reconciler) writeTemplate(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, version string, items []workv1alpha2.AggregatedStatusItem, failure string) (string, error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(gvk)
	if err := r.Kinds.Get(ctx, key, template); err != nil {
		return version, client.IgnoreNotFound(err) //nolint:wrapcheck // the resource is gone, or the server fails; both are reported elsewhere
	}
	aggregated, err := r.Interpreter.AggregateStatus(template.DeepCopy(), items)
	if err != nil {
		return version, fmt.Errorf("aggregating the status of %s %s: %w", gvk.Kind, key, err)
	}
	if gvk == deploymentKind {
		setProgress(aggregated, failure, r.Clock.Now())
	}
	if equality.Semantic.DeepEqual(template.Object["status"], aggregated.Object["status"]) {
		return version, nil
	}
	err = r.Kinds.UpdateStatus(ctx, aggregated)
	switch {
	case apierrors.IsNotFound(err):
		// The resource is gone, or its kind has no status to write.
		return version, nil
	case err != nil:
		return version, fmt.Errorf("writing the status of %s %s: %w", gvk.Kind, key, err)
	case template.GetResourceVersion() != version:
		// The resource had changed since it was observed, and its watch will show
		// that.
		return version, nil
	}
	templateWrites.WithLabelValues(r.Kind).Inc()
	return aggregated.GetResourceVersion(), nil
}
