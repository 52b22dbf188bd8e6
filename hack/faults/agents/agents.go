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

// Package agents simulates the agents of many clusters against a real Karmada API
// server. It registers Clusters, creates their execution namespaces, and responds to
// every Work in them as karmada-agent does: it sets conditions and a manifest
// status, and removes the finalizer. There are no real clusters.
//
// Karmada's controller manager must not run at the same time, because it would
// notice.
package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// Agents simulates the agents of some clusters.
type Agents struct {
	// Client is a client of the Karmada API server. Its scheme contains Clusters and
	// Works.
	Client client.WithWatch
	// Clusters are the names of the clusters.
	Clusters []string
	// Enablements are the APIs that each cluster reports as served.
	Enablements []clusterv1alpha1.APIEnablement
	// Writers is the number of concurrent requests.
	Writers int
	// Pace, if not nil, is called before each report of an applied Work. Calls do not
	// overlap, and each returns when the report is due.
	Pace func(context.Context) error

	spaces map[string]bool
	pacing sync.Mutex
	// answered maps the UID of a Work to the last generation that got a response.
	answered sync.Map
}

// Names returns names for a number of clusters: prefix-0001 and so on.
func Names(prefix string, count int) []string {
	clusters := make([]string, 0, count)
	for i := range count {
		clusters = append(clusters, fmt.Sprintf("%s-%04d", prefix, i+1))
	}
	return clusters
}

// Join registers the clusters as Ready and creates their execution namespaces.
func (a *Agents) Join(ctx context.Context) error {
	return a.each(a.Clusters, func(name string) error {
		if err := a.hasSpace(ctx, names.GenerateExecutionSpaceName(name)); err != nil {
			return fmt.Errorf("creating the execution namespace of %s: %w", name, err)
		}
		cluster := &clusterv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull},
		}
		if err := a.Client.Create(ctx, cluster); err != nil {
			return fmt.Errorf("registering %s: %w", name, err)
		}
		cluster.Status.KubernetesVersion = "v1.35.4"
		cluster.Status.APIEnablements = a.Enablements
		for _, condition := range []string{clusterv1alpha1.ClusterConditionReady, clusterv1alpha1.ClusterConditionCompleteAPIEnablements} {
			meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
				Type: condition, Status: metav1.ConditionTrue, Reason: "Played", Message: "nothing is behind this cluster",
			})
		}
		if err := a.Client.Status().Update(ctx, cluster); err != nil {
			return fmt.Errorf("reporting %s Ready: %w", name, err)
		}
		return nil
	})
}

// hasSpace creates a namespace, when one of the same name that is being deleted is gone.
func (a *Agents) hasSpace(ctx context.Context, name string) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) { //nolint:wrapcheck // the caller says what failed
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := a.Client.Create(ctx, space)
		if !apierrors.IsAlreadyExists(err) {
			return err == nil, err
		}
		err = a.Client.Get(ctx, client.ObjectKeyFromObject(space), space)
		return err == nil && space.DeletionTimestamp == nil, client.IgnoreNotFound(err)
	})
}

// Leave unregisters the clusters and deletes their execution namespaces. If a test ended
// early, there are Works left, which nobody else would release.
func (a *Agents) Leave(ctx context.Context) error {
	return a.each(a.Clusters, func(name string) error {
		cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: names.GenerateExecutionSpaceName(name)}}
		err := errors.Join(client.IgnoreNotFound(a.Client.Delete(ctx, cluster)), client.IgnoreNotFound(a.Client.Delete(ctx, space)))
		left := &workv1alpha1.WorkList{}
		err = errors.Join(err, a.Client.List(ctx, left, client.InNamespace(space.Name)))
		for i := range left.Items {
			a.release(ctx, &left.Items[i])
		}
		return err
	})
}

// each calls a function for every cluster, several at a time.
func (a *Agents) each(clusters []string, do func(string) error) error {
	failures := make([]error, len(clusters))
	slots := make(chan struct{}, max(1, a.Writers))
	var group sync.WaitGroup
	for i, name := range clusters {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			failures[i] = do(name)
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// Serve responds to Works until ctx is done. It returns an error if it cannot watch
// Works.
func (a *Agents) Serve(ctx context.Context) error {
	a.spaces = make(map[string]bool, len(a.Clusters))
	for _, name := range a.Clusters {
		a.spaces[names.GenerateExecutionSpaceName(name)] = true
	}
	slots := make(chan struct{}, max(1, a.Writers))
	var group sync.WaitGroup
	defer group.Wait()
	for ctx.Err() == nil {
		// The API server ends the watch of a client that is too slow, and a thousand
		// clusters cause many events. A new watch begins with all existing Works.
		watching, err := a.Client.Watch(ctx, &workv1alpha1.WorkList{})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("watching Works: %w", err)
		}
		if err != nil {
			return nil
		}
		for event := range watching.ResultChan() {
			work, ok := event.Object.(*workv1alpha1.Work)
			if !ok {
				break
			}
			if event.Type == watch.Deleted || !a.spaces[work.Namespace] || !a.wantsAnswer(work) {
				continue
			}
			group.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				a.answer(ctx, work)
			})
		}
		watching.Stop()
	}
	return nil
}

// wantsAnswer reports whether an agent would act on a Work. It would after a change
// of the spec, but not after a change of only the status.
func (a *Agents) wantsAnswer(work *workv1alpha1.Work) bool {
	if work.DeletionTimestamp != nil {
		return controllerutil.ContainsFinalizer(work, util.ExecutionControllerFinalizer)
	}
	suspended := work.Spec.SuspendDispatching != nil && *work.Spec.SuspendDispatching
	generation, _ := a.answered.Load(work.UID)
	return !suspended && generation != work.Generation && !meta.IsStatusConditionTrue(work.Status.Conditions, workv1alpha1.WorkApplied)
}

// release removes the finalizer of a Work. It retries, because nobody else would
// remove it, and a Work that is being deleted may not change again.
func (a *Agents) release(ctx context.Context, work *workv1alpha1.Work) {
	worthIt := func(err error) bool { return err != nil && ctx.Err() == nil }
	_ = retry.OnError(retry.DefaultBackoff, worthIt, func() error {
		return client.IgnoreNotFound(a.Client.Patch(ctx, work.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
}

// answer writes what an agent would write. A conflict is not an error, because the
// watch shows the changed Work again.
func (a *Agents) answer(ctx context.Context, work *workv1alpha1.Work) {
	if work.DeletionTimestamp != nil {
		a.answered.Delete(work.UID)
		a.release(ctx, work)
		return
	}
	if a.waits(ctx) != nil {
		return
	}
	now := metav1.NewTime(time.Now())
	// The order matters: an attempt begins before it ends.
	for _, condition := range []metav1.Condition{
		{Type: workv1alpha1.WorkDispatching, Reason: "Dispatching", Message: "Work is being dispatched to member clusters."},
		{Type: workv1alpha1.WorkApplied, Reason: "AppliedSuccessful", Message: "Manifest has been successfully applied"},
	} {
		condition.Status, condition.LastTransitionTime = metav1.ConditionTrue, now
		work.Status.Conditions = slices.DeleteFunc(work.Status.Conditions, func(old metav1.Condition) bool { return old.Type == condition.Type })
		work.Status.Conditions = append(work.Status.Conditions, condition)
	}
	work.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
		Identifier: workv1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Name: work.Name},
		Health:     workv1alpha1.ResourceHealthy,
	}}
	if a.Client.Status().Update(ctx, work) == nil {
		a.answered.Store(work.UID, work.Generation)
	}
}

func (a *Agents) waits(ctx context.Context) error {
	if a.Pace == nil {
		return nil
	}
	a.pacing.Lock()
	defer a.pacing.Unlock()
	return a.Pace(ctx)
}
