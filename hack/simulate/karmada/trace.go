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
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// Trace is a history of one Work, one cluster and its member, with what comes to be seen
// after each operation. It is the same on the model and on a real Karmada.
type Trace struct {
	Name string
	// Disturbs says that the trace stops or removes the member.
	Disturbs bool
	Steps    []Step
}

// Step is an operation, and what comes to be seen after it.
type Step struct {
	Do Verb
	// Says is the content of the object that the operation is about.
	Says string
	// Kind of the resource of the Work; by default, a ConfigMap.
	Kind string
	// Overwrite lets the Work take over an object that Karmada does not manage.
	Overwrite bool
	Then      Observation
}

// Observation is what is seen of a Work and of its object on the member. What is not set
// is not looked at.
type Observation struct {
	// Conditions of the Work, each "type=status reason", in their order.
	Conditions []string
	// Message is contained in the message of Applied.
	Message string
	// Runs is what the object on the member says.
	Runs string
	// Absent says that the member has no such object, WorkGone that there is no Work.
	Absent, WorkGone bool
	// Healthy says that the Work reports the object as healthy.
	Healthy bool
	// Managed says whether the object on the member has Karmada's label.
	Managed *bool
	// Bound says that the Work has the label of a binding.
	Bound bool
	// Ready is the status of the cluster's condition Ready, or one of the words below.
	Ready string
}

// What Observation.Ready may be besides a status.
const (
	// notReady is any status but True.
	notReady = "not True"
	// gone says that there is no Cluster.
	gone = "gone"
)

// Verb is an operation.
type Verb string

// The operations. CreateWork creates the Work of an object that says something, and
// UpdateWork makes it say something else. The verbs that end in There are about the
// object on the member.
const (
	CreateWork Verb = "create the Work"
	UpdateWork Verb = "update the Work"
	// ResetWork removes the conditions of the Work.
	ResetWork Verb = "reset the Work"
	// SuspendWork and ResumeWork set suspendDispatching.
	SuspendWork Verb = "suspend the Work"
	ResumeWork  Verb = "resume the Work"
	// PreserveWork sets preserveResourcesOnDeletion.
	PreserveWork Verb = "let the Work preserve its object"
	DeleteWork   Verb = "delete the Work"
	CreateThere  Verb = "create the object on the member"
	EditThere    Verb = "edit the object on the member"
	DeleteThere  Verb = "delete the object on the member"
	// Cut makes the member unreachable, Mend reachable again.
	Cut  Verb = "cut the member off"
	Mend Verb = "connect the member again"
	// CreateTemplate creates the resource on the control plane, and a policy sends it to
	// the cluster. DeleteTemplate deletes the resource there.
	CreateTemplate Verb = "create the template of a policy"
	DeleteTemplate Verb = "delete the template"
	// DeleteNamespace deletes the namespace of the object on the control plane.
	DeleteNamespace Verb = "delete the namespace"
	// Leave removes the cluster from Karmada, Join registers it again.
	Leave Verb = "remove the cluster"
	Join  Verb = "join the cluster"
)

// Members is the API of a member, as somebody on the member uses it.
type Members interface {
	Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error
	Create(ctx context.Context, object client.Object, options ...client.CreateOption) error
	Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error
	Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error
}

// Stage is where traces are played.
type Stage interface {
	// ControlPlane is the API of the control plane, Member that of the member.
	ControlPlane() client.Client
	Member() Members
	// Cluster is the name of the member, Namespace a namespace that both have.
	Cluster() string
	Namespace() string
	// Bind lets a policy send a template of the control plane to the cluster.
	Bind(ctx context.Context, template *unstructured.Unstructured) error
	// Cut, Mend, Leave and Join are the operations of the same names.
	Cut(ctx context.Context) error
	Mend(ctx context.Context) error
	Leave(ctx context.Context) error
	Join(ctx context.Context) error
	// Eventually waits until a check passes.
	Eventually(ctx context.Context, what string, check func(context.Context) error) error
}

// Play plays a trace, and returns how the stage differs from it.
func (t *Trace) Play(ctx context.Context, stage Stage) error {
	p := &player{stage: stage}
	for i := range t.Steps {
		step := &t.Steps[i]
		if i == 0 {
			p.kind = step.Kind
		}
		what := fmt.Sprintf("%s: step %d, %s", t.Name, i+1, step.Do)
		if err := p.do(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := stage.Eventually(ctx, what, func(ctx context.Context) error { return p.sees(ctx, &step.Then) }); err != nil {
			return err
		}
	}
	return nil
}

// player plays a trace on a stage.
type player struct {
	stage Stage
	kind  string
}

func (p *player) workKey() types.NamespacedName {
	resource := p.resource("")
	return types.NamespacedName{
		Namespace: names.GenerateExecutionSpaceName(p.stage.Cluster()),
		Name:      names.GenerateWorkName(resource.GetKind(), resource.GetName(), resource.GetNamespace()),
	}
}

// sees compares what is there with what should be.
func (p *player) sees(ctx context.Context, want *Observation) error {
	return errors.Join(p.seesWork(ctx, want), p.seesObject(ctx, want), p.seesCluster(ctx, want))
}

func (p *player) seesWork(ctx context.Context, want *Observation) error {
	if want.Conditions == nil && want.Message == "" && !want.WorkGone && !want.Healthy && !want.Bound {
		return nil
	}
	work := &workv1alpha1.Work{}
	err := p.stage.ControlPlane().Get(ctx, p.workKey(), work)
	switch {
	case want.WorkGone && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the Work: %w", err)
	case want.WorkGone:
		return errors.New("the Work is still there")
	}
	return compareWork(work, want)
}

// compareWork compares a Work that is there.
func compareWork(work *workv1alpha1.Work, want *Observation) error {
	var errs []error
	var said []string
	for _, condition := range work.Status.Conditions {
		said = append(said, fmt.Sprintf("%s=%s %s", condition.Type, condition.Status, condition.Reason))
	}
	if got, wanted := strings.Join(said, ", "), strings.Join(want.Conditions, ", "); want.Conditions != nil && got != wanted {
		errs = append(errs, fmt.Errorf("the conditions are %q, not %q", got, wanted))
	}
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	if want.Message != "" && (applied == nil || !strings.Contains(applied.Message, want.Message)) {
		errs = append(errs, fmt.Errorf("the message of Applied lacks %q: %+v", want.Message, applied))
	}
	if statuses := work.Status.ManifestStatuses; want.Healthy && (len(statuses) != 1 || statuses[0].Health != workv1alpha1.ResourceHealthy) {
		errs = append(errs, fmt.Errorf("the object is not reported healthy: %+v", statuses))
	}
	if want.Bound && work.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] == "" {
		errs = append(errs, fmt.Errorf("no binding holds the Work: %v", work.Labels))
	}
	return errors.Join(errs...)
}

func (p *player) seesObject(ctx context.Context, want *Observation) error {
	if want.Runs == "" && !want.Absent && want.Managed == nil {
		return nil
	}
	object := p.resource("")
	err := p.stage.Member().Get(ctx, client.ObjectKeyFromObject(object), object)
	switch {
	case want.Absent && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the object on the member: %w", err)
	case want.Absent:
		return errors.New("the member still has the object")
	}
	var errs []error
	if said, _, _ := unstructured.NestedString(object.Object, contentOf(object)...); want.Runs != "" && said != want.Runs {
		errs = append(errs, fmt.Errorf("the member says %q, not %q", said, want.Runs))
	}
	if managed := isManaged(object); want.Managed != nil && managed != *want.Managed {
		errs = append(errs, fmt.Errorf("the object is managed by Karmada: %v", managed))
	}
	return errors.Join(errs...)
}

func (p *player) seesCluster(ctx context.Context, want *Observation) error {
	if want.Ready == "" {
		return nil
	}
	cluster := &clusterv1alpha1.Cluster{}
	err := p.stage.ControlPlane().Get(ctx, types.NamespacedName{Name: p.stage.Cluster()}, cluster)
	got := gone
	if err == nil {
		got = "absent"
		if ready := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); ready != nil {
			got = string(ready.Status)
		}
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the Cluster: %w", err)
	}
	lost := want.Ready == notReady && got != string(metav1.ConditionTrue) && got != gone
	if got != want.Ready && !lost {
		return fmt.Errorf("the cluster's Ready is %s, not %s", got, want.Ready)
	}
	return nil
}
