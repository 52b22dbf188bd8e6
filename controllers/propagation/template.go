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
	// deadline is when to judge again whether a Deployment makes progress; the zero time
	// for never.
	deadline time.Time
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

// isDue reports whether the deadline has come.
func (a *aggregation) isDue(now time.Time) bool {
	return !a.deadline.IsZero() && !now.Before(a.deadline)
}

// untilDue returns how long it is until the deadline; 0 if there is none.
func (a *aggregation) untilDue(now time.Time) time.Duration {
	if a.deadline.IsZero() {
		return 0
	}
	return max(time.Millisecond, a.deadline.Sub(now))
}

// reports is what the clusters report about a resource.
type reports struct {
	// items are the reports in the form in which Karmada's bindings collect them.
	items []workv1alpha2.AggregatedStatusItem
	// works are, by cluster, the Works of the resource. cut are those whose status is too
	// large for the cache; in the items of these, a hash replaces the status.
	works, cut map[string]*workv1alpha1.Work
	// deployment is what else is known about a Deployment; nil for other kinds.
	deployment *decide.Deployment
}

// anyStatus reports whether a cluster reports a status.
func (r *reports) anyStatus() bool {
	return slices.ContainsFunc(r.items, func(item workv1alpha2.AggregatedStatusItem) bool { return item.Status != nil })
}

// fingerprint identifies what is aggregated onto a version of a resource. epoch is that of
// the interpreter's configuration.
func (r *reports) fingerprint(epoch int64, version string) (string, error) {
	content, err := json.Marshal(r.items)
	if err != nil {
		return "", fmt.Errorf("encoding what clusters report: %w", err)
	}
	content = fmt.Appendf(content, " %d %s", epoch, version)
	if r.deployment != nil {
		content = append(content, r.deployment.Fingerprint()...)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), nil
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
	collected, err := r.reports(object, observed)
	if err != nil || !collected.anyStatus() {
		return 0, err
	}
	if gvk == deploymentKind {
		collected.deployment = r.deploymentOf(object, observed, collected)
	}
	fingerprint, err := collected.fingerprint(r.Interpreter.Epoch(), resource.Version)
	if err != nil {
		return 0, err
	}
	last := r.memories.of(key).aggregation
	if last.fingerprint == fingerprint && !last.isDue(r.Clock.Now()) {
		return last.untilDue(r.Clock.Now()), nil
	}
	if early := statusInterval - r.Clock.Since(last.at); !last.at.IsZero() && early > 0 {
		return early, nil
	}
	if err := r.complete(ctx, collected); err != nil {
		return 0, err
	}
	written, err := r.writeTemplate(ctx, gvk, types.NamespacedName{Namespace: key.Namespace, Name: reference.Name}, resource.Version, collected)
	if err != nil {
		return 0, err
	}
	if written.version != resource.Version {
		last.at = r.Clock.Now()
		r.memories.of(key).rewrote(resource.Version, written.version)
		if fingerprint, err = collected.fingerprint(r.Interpreter.Epoch(), written.version); err != nil {
			return 0, err
		}
	}
	last.fingerprint, last.deadline = fingerprint, written.deadline
	r.memories.of(key).aggregation = last
	return last.untilDue(r.Clock.Now()), nil
}

// aggregates reports whether the status of the resource is ours to write.
func (r *Reconciler) aggregates(observed *decide.Observed, gvk schema.GroupVersionKind) bool {
	return !r.KeepTemplateStatus && !observed.Deleting && observed.Resource.Problem == nil && observed.Resource.ClaimedBy == "" &&
		ptr.Deref(observed.Spec.AggregateStatus, true) && r.Interpreter.HookEnabled(gvk, configv1alpha1.InterpreterOperationAggregateStatus)
}

// reports collects what the clusters report about a resource, but for those that lose it.
func (r *Reconciler) reports(object cached.Object, observed *decide.Observed) (*reports, error) {
	reference := observed.Spec.Resource
	name := render.WorkKey("", reference.Kind, observed.Owner.Namespace, reference.Name).Name
	works, err := r.worksOf(cached.WorkNameKey(name))
	if err != nil {
		return nil, fmt.Errorf("finding the Works of %s %s: %w", reference.Kind, reference.Name, err)
	}
	found := &reports{
		items: make([]workv1alpha2.AggregatedStatusItem, 0, len(works)),
		works: make(map[string]*workv1alpha1.Work, len(works)), cut: map[string]*workv1alpha1.Work{},
	}
	departs := r.departures(object, observed)
	for _, work := range works {
		if work.DeletionTimestamp != nil || render.TemplateUID(work) != observed.Resource.UID || departs(work) {
			continue
		}
		item := reportOf(work)
		if item.Applied && render.IsCut(&work.Status.ManifestStatuses[0]) {
			found.cut[item.ClusterName] = work
		}
		found.items, found.works[item.ClusterName] = append(found.items, item), work
	}
	slices.SortFunc(found.items, func(a, b workv1alpha2.AggregatedStatusItem) int { return cmp.Compare(a.ClusterName, b.ClusterName) })
	return found, nil
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
func (r *Reconciler) complete(ctx context.Context, collected *reports) error {
	collected.items = slices.Clone(collected.items)
	for i := range collected.items {
		work := collected.cut[collected.items[i].ClusterName]
		if work == nil {
			continue
		}
		full := &workv1alpha1.Work{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(work), full); err != nil {
			return fmt.Errorf("reading Work %s/%s: %w", work.Namespace, work.Name, err)
		}
		collected.items[i] = reportOf(full)
	}
	return nil
}

// written is a status that a resource has now.
type written struct {
	// version is the version of the resource that a write of the status produced, or the
	// given one if there was nothing to write or the resource has changed since it was
	// observed.
	version string
	// deadline is when to judge the status again; the zero time for never.
	deadline time.Time
}

// writeTemplate aggregates onto the resource and writes it if it differs.
func (r *Reconciler) writeTemplate(ctx context.Context, gvk schema.GroupVersionKind, key types.NamespacedName, version string, collected *reports) (written, error) {
	now := written{version: version}
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(gvk)
	if err := r.Kinds.Get(ctx, key, template); err != nil {
		return now, client.IgnoreNotFound(err) //nolint:wrapcheck // the resource is gone, or the server fails; both are reported elsewhere
	}
	aggregated, err := r.Interpreter.AggregateStatus(template.DeepCopy(), collected.items)
	if err == nil && collected.deployment != nil {
		aggregated, now.deadline, err = r.settle(template, aggregated, collected)
	}
	if err != nil {
		return now, fmt.Errorf("aggregating the status of %s %s: %w", gvk.Kind, key, err)
	}
	if equality.Semantic.DeepEqual(template.Object["status"], aggregated.Object["status"]) {
		return now, nil
	}
	err = r.Kinds.UpdateStatus(ctx, aggregated)
	switch {
	case apierrors.IsNotFound(err):
		// The resource is gone, or its kind has no status to write.
		return now, nil
	case err != nil:
		return now, fmt.Errorf("writing the status of %s %s: %w", gvk.Kind, key, err)
	case template.GetResourceVersion() != version:
		// The resource had changed since it was observed, and its watch will show
		// that.
		return now, nil
	}
	templateWrites.WithLabelValues(r.Kind).Inc()
	now.version = aggregated.GetResourceVersion()
	return now, nil
}
