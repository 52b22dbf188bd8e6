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
	"context"
	"encoding/json"
	"fmt"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

func (r *Reconciler) write(ctx context.Context, observed *decide.Observed, write *decide.Write, means contents) error {
	if means != nil {
		done, err := means.Admit(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	if write.Live == nil {
		return r.create(ctx, observed, write, means)
	}
	var manifest *render.Manifest
	var generation int64
	if write.Update {
		// Before the reset, because the revision may turn out to be a different
		// one.
		var err error
		if manifest, err = means.Manifest(ctx, write.Rendering); err != nil {
			return err
		}
		generation = manifest.TemplateGeneration()
	}
	live, sent := write.Live, []byte(nil)
	if write.NeedsReset(generation) {
		var err error
		if live, sent, err = r.reset(ctx, observed, live, write.Confirmed, write.Why); err != nil {
			return err
		}
	}
	if write.Nudge {
		return r.nudge(ctx, observed, live, write.AllNotes(), write.Why)
	}
	switch {
	case write.Superseded:
		return r.superseded(ctx, observed, live, write.Why)
	case write.Terms:
		return r.setTerms(ctx, observed, write, live)
	case write.Update:
		return r.update(ctx, observed, write, manifest, live, sent)
	}
	return nil
}

// setTerms writes what the owner specifies into a Work whose manifest stays as it is.
func (r *Reconciler) setTerms(ctx context.Context, observed *decide.Observed, write *decide.Write, live *workv1alpha1.Work) error {
	patch, err := json.Marshal(render.Terms(live, observed.Owner, write.Target, write.Confirmed))
	if err != nil {
		return fmt.Errorf("encoding the terms of Work %s/%s: %w", live.Namespace, live.Name, err)
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}}
	if err := r.Client.Patch(ctx, work, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return r.unlessGone(err, "updating Work %s/%s", live.Namespace, live.Name)
	}
	if err := r.written(ctx, observed, "update", work, write.Why); err != nil {
		return err
	}
	if write.DiffersFrom(work, observed.Owner) {
		return decide.ErrChanged
	}
	return nil
}

// update writes a manifest into a Work. sent is the manifest that it replaces; nil
// if that is not known.
func (r *Reconciler) update(ctx context.Context, observed *decide.Observed, write *decide.Write, manifest *render.Manifest, live *workv1alpha1.Work, sent []byte) error {
	target := write.Target
	target.Newest = r.newestGeneration(observed)
	work, err := manifest.UpdatedWork(live, observed.Owner, target, write.Confirmed)
	if err != nil {
		return err
	}
	if write.Reset && !write.NeedsReset(manifest.TemplateGeneration()) {
		work.Annotations[propagationv1alpha1.ReportProofAnnotation] = decide.ReportProof(manifest.Revision, live, r.Clock.Now())
	}
	if render.Revision(live) != manifest.Revision {
		r.setHealthFloor(observed, work, live, manifest, sent)
	}
	if err := r.Client.Update(ctx, work); err != nil {
		return r.unlessGone(err, "updating Work %s/%s", work.Namespace, work.Name)
	}
	return r.asWritten(ctx, observed, "update", work, write)
}

// newestGeneration is the newest generation of the resource of an object that is known. In
// a rollout, clusters may get an earlier one.
func (r *Reconciler) newestGeneration(observed *decide.Observed) int64 {
	newest := observed.Resource.Generation
	if remembered := r.memories.known(observed.Key()); remembered.hasRolledOut(observed.Owner.UID) {
		newest = max(newest, remembered.rolling.origin.Generation)
	}
	return newest
}

// asWritten records a successful write. It returns ErrChanged if the API server
// stored something other than what was written: without that error, the controller
// would write it again forever.
func (r *Reconciler) asWritten(ctx context.Context, observed *decide.Observed, operation string, work *workv1alpha1.Work, write *decide.Write) error {
	r.gauges.wrote(observed.Owner, client.ObjectKeyFromObject(work), write.Rendering.Revision, r.Clock.Now())
	if err := r.written(ctx, observed, operation, work, write.Why); err != nil {
		return err
	}
	if write.DiffersFrom(work, observed.Owner) {
		return decide.ErrChanged
	}
	return nil
}

// written records a successful write.
func (r *Reconciler) written(ctx context.Context, observed *decide.Observed, operation string, work *workv1alpha1.Work, why decide.Why) error {
	workWrites.WithLabelValues(r.Kind, operation).Inc()
	if err := r.ledger.Wrote(observed.Owner.UID, work); err != nil {
		return err
	}
	logWrite(ctx, operation, work, why)
	return nil
}

// create creates a Work. If the Work already exists, create determines who holds
// it.
func (r *Reconciler) create(ctx context.Context, observed *decide.Observed, write *decide.Write, means contents) error {
	manifest, err := means.Manifest(ctx, write.Rendering)
	if err != nil {
		return err
	}
	target := write.Target
	target.Newest = r.newestGeneration(observed)
	work, err := manifest.NewWork(observed.Owner, target)
	if err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(work)
	err = r.Client.Create(ctx, work)
	if err == nil {
		return r.asWritten(ctx, observed, "create", work, write)
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Work %s: %w", key, err)
	}
	existing := &workv1alpha1.Work{}
	if err := r.Live.Get(ctx, key, existing); err != nil {
		return r.unlessGone(err, "reading Work %s", key)
	}
	look := r.newHolderLook(observed)
	holder, err := look.holder(ctx, existing)
	if err != nil {
		return err
	}
	if holder != "" {
		return &heldError{holder: holder}
	}
	// It is ours, or nobody holds it any more. Now that it is recorded, the next
	// reconcile corrects it immediately.
	if err := r.ledger.Wrote(observed.Owner.UID, existing); err != nil {
		return err
	}
	return &lookAgainError{what: "creating Work " + key.String(), err: err}
}

// reset takes back what the cluster confirmed, so that any later confirmation is
// about what is written next. It returns the resulting Work, compact, with the
// resourceVersion that the next write must have, and the manifest in the Work.
func (r *Reconciler) reset(ctx context.Context, observed *decide.Observed, live *workv1alpha1.Work, confirmed string, why decide.Why) (*workv1alpha1.Work, []byte, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": live.ResourceVersion},
		"status":   map[string]any{"conditions": decide.ResetConditions(live, confirmed, observed.Now)},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the conditions of Work %s/%s: %w", live.Namespace, live.Name, err)
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name}}
	if err := r.Client.Status().Patch(ctx, work, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, nil, r.unlessGone(err, "resetting the status of Work %s/%s", live.Namespace, live.Name)
	}
	var sent []byte
	if len(work.Spec.Workload.Manifests) == 1 {
		sent = work.Spec.Workload.Manifests[0].Raw
	}
	return work, sent, r.written(ctx, observed, "reset", work, why)
}

// nudge makes Karmada attempt again to apply a Work or to delete it, and adds notes
// to its annotations.
func (r *Reconciler) nudge(ctx context.Context, observed *decide.Observed, work *workv1alpha1.Work, notes map[string]string, why decide.Why) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": work.ResourceVersion, "annotations": notes},
		"spec":     map[string]any{"suspendDispatching": render.Nudged(work)},
	})
	if err != nil {
		return fmt.Errorf("encoding the nudge of Work %s/%s: %w", work.Namespace, work.Name, err)
	}
	written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
	if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return r.unlessGone(err, "nudging Work %s/%s", work.Namespace, work.Name)
	}
	return r.written(ctx, observed, "nudge", written, why)
}

// superseded removes from a Work the annotation that says that the cluster may
// still have the object of an earlier resource with the same name.
func (r *Reconciler) superseded(ctx context.Context, observed *decide.Observed, work *workv1alpha1.Work, why decide.Why) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:null}}}`, work.ResourceVersion, propagationv1alpha1.SupersedesAnnotation)
	written := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name}}
	if err := r.Client.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return r.unlessGone(err, "updating Work %s/%s", work.Namespace, work.Name)
	}
	return r.written(ctx, observed, "update", written, why)
}

// setHealthFloor records, on a Work that is about to be written, which report is
// about the previous content, if the generation of the template does not show it.
// live is the current Work, compact. sent is the manifest in it; nil if that is not
// known.
func (r *Reconciler) setHealthFloor(observed *decide.Observed, work, live *workv1alpha1.Work, manifest *render.Manifest, sent []byte) {
	kind := manifest.Kind()
	if next := manifest.TemplateGeneration(); next != render.TemplateGeneration(live) && !decide.Reports(live, next) {
		// A report on a workload contains the generation of the template. For other
		// kinds, there is no better proof.
		delete(work.Annotations, propagationv1alpha1.HealthFloorAnnotation)
		if floor := decide.PassedFloor(observed, live, kind); floor != "" {
			work.Annotations[propagationv1alpha1.HealthFloorAnnotation] = floor
		}
		return
	}
	hasHealth := func() bool {
		return r.Interpreter.HookEnabled(kind, configv1alpha1.InterpreterOperationInterpretHealth)
	}
	if floor := decide.NextFloor(observed, live, kind, hasHealth); floor != "" && !manifest.HasContentOf(sent) {
		work.Annotations[propagationv1alpha1.HealthFloorAnnotation] = floor
	}
}
