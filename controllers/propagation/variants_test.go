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
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	metadatafake "k8s.io/client-go/metadata/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
)

// scripted is Karmada's interpreter with answers from a test.
type scripted struct {
	nativeInterpreter

	// revisions are the replicas that were requested, in order.
	revisions []int64
	// revise, if set, is called before replicas are revised.
	revise func(object *unstructured.Unstructured, replicas int64) error
	// unable means that no kind has replicas.
	unable bool
}

func (s *scripted) HookEnabled(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) bool {
	return (!s.unable || operation != configv1alpha1.InterpreterOperationReviseReplica) && s.nativeInterpreter.HookEnabled(kind, operation)
}

func (s *scripted) ReviseReplica(object *unstructured.Unstructured, replicas int64) (*unstructured.Unstructured, error) {
	s.revisions = append(s.revisions, replicas)
	if s.revise != nil {
		if err := s.revise(object, replicas); err != nil {
			return nil, err
		}
	}
	return s.nativeInterpreter.ReviseReplica(object, replicas) //nolint:wrapcheck // a test double passes errors through
}

// watched makes the watch of Deployments show the current Deployment, so that what
// is remembered about it is valid, and counts how often the Deployment is read.
func watched(t *testing.T, b *bench, reads *int) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := b.server.Get(t.Context(), web, deployment); err != nil {
		t.Fatal(err)
	}
	shown := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: web.Namespace, Name: web.Name, UID: deployment.UID, ResourceVersion: deployment.ResourceVersion,
	}}
	shown.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	kinds := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	b.Resources = cached.NewWatches(t.Context(), metadatafake.NewSimpleMetadataClient(kinds, shown), func(schema.GroupVersionResource, types.NamespacedName, bool) {}, nobody)
	counting := interceptor.NewClient(b.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if object.GetObjectKind().GroupVersionKind().Kind == "Deployment" {
				*reads++
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	b.Kinds = cached.NewKinds(nil, served(), b.Clock, func(meta.RESTMapper) (client.Client, error) { return counting, nil })
	b.Resources.Track(web, appsv1.SchemeGroupVersion.WithResource("deployments"))
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return b.Resources.Unchanged(appsv1.SchemeGroupVersion.WithResource("deployments"), web.Namespace, web.Name, deployment.UID, deployment.ResourceVersion), nil
	}); err != nil {
		t.Fatal(err)
	}
}

// farPolicy returns a policy with which clusters at a site pull images from another
// registry.
func farPolicy(namespace string) *policyv1alpha1.OverridePolicy {
	policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mirror", UID: "policy"}}
	policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"site": "far"}}},
		Overriders:    registry(),
	}}
	return policy
}

// script lets a test answer for Karmada's interpreter.
func (b *bench) script() *scripted {
	interpreter := &scripted{}
	interpreter.DefaultInterpreter = b.Interpreter.ResourceInterpreter.(nativeInterpreter).DefaultInterpreter //nolint:forcetypeassert // newBench made it
	b.Interpreter.ResourceInterpreter = interpreter
	return interpreter
}

// thirtyClusters names 30 clusters with three numbers of replicas; a policy makes
// every other one differ.
func thirtyClusters() []client.Object {
	object, objects := webPropagation(), []client.Object{webDeployment(), farPolicy(web.Namespace)}
	object.Spec.Clusters = nil
	for i := range 30 {
		member := memberCluster(fmt.Sprintf("member%d", i))
		if i%2 == 0 {
			member.Labels = map[string]string{"site": "far"}
		}
		objects = append(objects, member)
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: member.Name, Replicas: ptr.To[int32](int32(1 + i%3))})
	}
	return append(objects, object)
}

// TestClustersShareARendering: what is the same on many clusters is rendered once,
// and a change to the labels of one cluster renders nothing for the others.
func TestClustersShareARendering(t *testing.T) {
	b, reads := newBench(t, thirtyClusters()...), 0
	interpreter := b.script()
	watched(t, b, &reads)
	if err := b.reconcile(t); err != nil {
		t.Fatal(err)
	}
	// Two sites with three numbers of replicas. Each variant is rendered at most
	// twice: to find its revision and to write it.
	if got := len(interpreter.revisions); got < 6 || got > 12 {
		t.Errorf("%d renderings of 6 variants: %v", got, interpreter.revisions)
	}
	b.imageIs(t, "member4", "mirror.example.org/nginx:1")
	b.imageIs(t, "member5", "nginx:1")
	for i := range 30 {
		b.replicasAre(t, fmt.Sprintf("member%d", i), int64(1+i%3))
	}
	b.settle(t)
	b.confirm(t)
	interpreter.revisions, reads = nil, 0
	b.settle(t)
	if reads > 0 || len(interpreter.revisions) > 0 {
		t.Errorf("idle: %d reads, %d renderings", reads, len(interpreter.revisions))
	}

	b.relabel(t, "member5", map[string]string{"site": "far"})
	b.settle(t)
	b.imageIs(t, "member5", "mirror.example.org/nginx:1")
	if reads > 1 || len(interpreter.revisions) > 1 {
		t.Errorf("another label on one cluster: %d reads, %d renderings", reads, len(interpreter.revisions))
	}
}

// replicasAre checks how many replicas a cluster gets.
func (b *bench) replicasAre(t *testing.T, cluster string, want int64) {
	t.Helper()
	if got := replicasOf(t, b.manifestOn(t, cluster)); got != want {
		t.Errorf("replicas on %s = %d, want %d", cluster, got, want)
	}
}

// TestPoliciesForOtherGroups: policies for other API groups cost nothing.
func TestPoliciesForOtherGroups(t *testing.T) {
	policy := farPolicy(web.Namespace)
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Service"}}
	b := newBench(t, append(aShop(), policy)...)
	found, err := b.Customizer.VariantsOf(t.Context(), observedOn("member1"))
	if err != nil || len(found.ByName) > 0 || found.Inputs != "" {
		t.Errorf("variants: %+v, %v", found, err)
	}
}

// threeAndFive is a shop with 3 replicas on member1 and 5 on member2.
func threeAndFive(t *testing.T) *bench {
	t.Helper()
	object := webPropagation()
	object.Spec.Clusters[0].Replicas, object.Spec.Clusters[1].Replicas = ptr.To[int32](3), ptr.To[int32](5)
	return newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2"))
}

// renderingFails checks that the row of a cluster says why its manifest cannot be
// rendered.
func (b *bench) renderingFails(t *testing.T, cluster, want string) {
	t.Helper()
	if row := b.rowOf(t, cluster); row.Reason != propagationv1alpha1.ReasonRenderFailed || row.Message != want {
		t.Errorf("row: %s: %s, want %s", row.Reason, row.Message, want)
	}
}

// TestKindWithoutReplicas: a kind whose replicas cannot be revised is not retried.
func TestKindWithoutReplicas(t *testing.T) {
	b, passive, reads := threeAndFive(t), clocktesting.NewFakePassiveClock(time.Now()), 0
	b.Clock = passive
	b.script().unable = true
	watched(t, b, &reads)
	b.settle(t)
	b.renderingFails(t, "member1", "spec.clusters, replicas of member1: Karmada's resource interpreter cannot revise the replicas of apps/v1 Deployment; leave replicas out, or write a ResourceInterpreterCustomization with replicaRevision")
	reads = 0
	passive.SetTime(passive.Now().Add(2 * customize.RenderPoll))
	b.settle(t)
	if reads > 0 {
		t.Errorf("a kind without replicas is retried: %d reads", reads)
	}
}

// TestReplicasThatFail: an interpreter that does not answer is asked again now and
// then, only for the affected clusters. Before that, its configuration changes.
func TestReplicasThatFail(t *testing.T) {
	b, passive, reads := threeAndFive(t), clocktesting.NewFakePassiveClock(time.Now()), 0
	b.Clock = passive
	interpreter := b.script()
	interpreter.unable = true
	watched(t, b, &reads)
	b.settle(t)

	interpreter.unable = false
	interpreter.revise = func(_ *unstructured.Unstructured, replicas int64) error {
		if replicas == 5 {
			return errors.New("the webhook does not answer")
		}
		return nil
	}
	b.Interpreter.Changed()
	b.settle(t)
	b.replicasAre(t, "member1", 3)
	b.renderingFails(t, "member2", "spec.clusters, replicas of member2: revising the replicas of Deployment web: the webhook does not answer")
	b.confirm(t)
	b.settle(t)
	reads, interpreter.revisions = 0, nil
	b.settle(t)
	if reads > 0 {
		t.Errorf("before it is due: %d reads", reads)
	}
	passive.SetTime(passive.Now().Add(customize.RenderPoll))
	interpreter.revise = nil
	b.settle(t)
	if fmt.Sprint(interpreter.revisions) != "[5]" || reads != 1 {
		t.Errorf("when it is due: %d reads, replicas revised: %v, want only those of member2", reads, interpreter.revisions)
	}
	b.replicasAre(t, "member2", 5)
}

// TestRenderedAgainIsTheSame: a write either contains what was decided on, or does
// not happen.
func TestRenderedAgainIsTheSame(t *testing.T) {
	b, answers := threeAndFive(t), 0
	b.script().revise = func(object *unstructured.Unstructured, _ int64) error {
		if answers++; answers <= 2 {
			object.SetLabels(map[string]string{"answer": "of an older version"})
		}
		return nil
	}
	if err := b.reconcile(t); err != nil {
		t.Fatal(err)
	}
	// The last rendering is kept. The other variant is rendered again, and differs.
	if works := b.works(t); len(works) != 1 {
		t.Errorf("%d Works were written, want only the one whose rendering is unchanged", len(works))
	}
	b.settle(t)
	for cluster, replicas := range map[string]int64{"member1": 3, "member2": 5} {
		manifest := b.manifestOn(t, cluster)
		if got := replicasOf(t, manifest); got != replicas || manifest.GetLabels()["answer"] != "" {
			t.Errorf("%s: %d replicas, labels %v", cluster, got, manifest.GetLabels())
		}
	}
}

// A resource that is deleted before the watch of its kind shows it wakes nobody. It is read
// again until the watch shows it.
func TestResourceThatItsWatchNeverShows(t *testing.T) {
	b := newBench(t, aShop()...)
	look := func() (time.Duration, string) {
		t.Helper()
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter, meta.FindStatusCondition(b.propagation(t).Status.Conditions, propagationv1alpha1.ConditionReady).Reason
	}
	b.settle(t)
	if wait, reason := look(); wait == 0 || wait > unseenPoll || reason != propagationv1alpha1.ReasonApplying {
		t.Errorf("looks again in %v; %s", wait, reason)
	}
	passive := clocktesting.NewFakePassiveClock(b.Clock.Now().Add(time.Minute))
	b.Clock = passive
	if wait, _ := look(); wait < 50*time.Second || wait > unseenMost {
		t.Errorf("after a minute, it looks again in %v", wait)
	}
	if err := b.server.Delete(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	if _, reason := look(); reason != propagationv1alpha1.ReasonResourceNotFound {
		t.Errorf("%s, want ResourceNotFound", reason)
	}
	if err := b.server.Create(t.Context(), webDeployment()); err != nil {
		t.Fatal(err)
	}
	if wait, _ := look(); wait == 0 || wait > unseenPoll {
		t.Errorf("a new one: looks again in %v", wait)
	}
}

// The same holds when a rollout has ended, and nothing else is to come.
func TestRolloutOfAResourceThatItsWatchNeverShows(t *testing.T) {
	s := newStage(t, nil)
	for range 20 {
		result, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > unseenMost {
			t.Fatalf("looks again in %v: %v", result.RequeueAfter, err)
		}
		s.clock.SetTime(s.clock.Now().Add(result.RequeueAfter))
	}
}

// A resource that the watch of its kind shows is not read again.
func TestResourceThatItsWatchShows(t *testing.T) {
	b := newBench(t, aShop()...)
	b.settle(t)
	b.confirm(t)
	b.settle(t)
	reads := 0
	watched(t, b, &reads)
	result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: web})
	if err != nil || result.RequeueAfter != 0 || reads > 0 {
		t.Errorf("looks again in %v, and has read the resource %d times: %v", result.RequeueAfter, reads, err)
	}
}
