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
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
)

// model is the stage on which traces are played with the model.
type model struct {
	*world
	member *Member
	mode   clusterv1alpha1.ClusterSyncMode
}

func (m *model) ControlPlane() client.Client { return m.c }
func (m *model) Member() Members             { return memberAPI{m.member} }
func (m *model) Cluster() string             { return m.member.Name }
func (m *model) Namespace() string           { return "shop" }
func (m *model) Cut(context.Context) error   { m.member.Cut(); return nil }
func (m *model) Mend(context.Context) error  { m.member.Mend(); return nil }
func (m *model) Join(ctx context.Context) error {
	return m.c.Create(ctx, NewCluster(m.member.Name, m.mode))
}
func (m *model) Bind(ctx context.Context, template *unstructured.Unstructured) error {
	return m.c.Create(ctx, NewBinding(template, "binding-id", m.member.Name))
}

func (m *model) Leave(context.Context) error {
	if m.mode == pull {
		m.k.Unregister(m.member.Name)
	} else {
		m.k.Unjoin(m.member.Name, false)
	}
	return nil
}

// Eventually lets the actors act until the check passes, for up to 30 minutes.
func (m *model) Eventually(ctx context.Context, what string, check func(context.Context) error) error {
	var err error
	for range 1800 {
		m.pass(time.Second)
		if err = check(ctx); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// memberAPI is the API of a simulated member.
type memberAPI struct{ *Member }

func (m memberAPI) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	into, _ := object.(*unstructured.Unstructured)
	have, err := m.get(KeyOf(into))
	if err != nil {
		return err
	}
	into.Object = have.Object
	return nil
}

func (m memberAPI) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	given, _ := object.(*unstructured.Unstructured)
	return m.Member.Create(given)
}

func (m memberAPI) Update(_ context.Context, object client.Object, _ ...client.UpdateOption) error {
	given, _ := object.(*unstructured.Unstructured)
	_, err := m.update(given)
	return err
}

func (m memberAPI) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	given, _ := object.(*unstructured.Unstructured)
	return m.Member.Delete(KeyOf(given))
}

// Every trace holds on the model, whoever acts first.
func TestTracesHoldOnTheModel(t *testing.T) {
	for _, trace := range Traces() {
		for _, mode := range []clusterv1alpha1.ClusterSyncMode{push, pull} {
			for seed := range uint64(3) {
				t.Run(fmt.Sprintf("%s/%s/%d", trace.Name, mode, seed), func(t *testing.T) {
					t.Parallel()
					w, member := shop(t, mode)
					if seed > 0 {
						w.at(seed)
					}
					if err := trace.Play(t.Context(), &model{world: w, member: member, mode: mode}); err != nil {
						t.Errorf("%v\n%s", err, last(w.story, 80))
					}
				})
			}
		}
	}
}

// A trace that is wrong fails: the comparison sees what it must see.
func TestWrongTracesFail(t *testing.T) {
	created := Step{Do: CreateWork, Says: "one"}
	for name, step := range map[string]Step{
		"conditions":  {Do: UpdateWork, Says: "two", Then: Observation{Conditions: []string{saysApplied, saysDispatching}}},
		"content":     {Do: UpdateWork, Says: "two", Then: Observation{Runs: "one"}},
		"absence":     {Do: UpdateWork, Says: "two", Then: Observation{Absent: true}},
		"the end":     {Do: SuspendWork, Then: Observation{WorkGone: true}},
		"the binding": {Do: SuspendWork, Then: Observation{Bound: true}},
		"readiness":   {Do: SuspendWork, Then: Observation{Ready: "not True"}},
		"message":     {Do: SuspendWork, Then: Observation{Message: "already exists"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, member := shop(t, push)
			trace := Trace{Name: name, Steps: []Step{created, step}}
			if err := trace.Play(t.Context(), &impatient{model{world: w, member: member, mode: push}}); err == nil {
				t.Error("the trace holds")
			}
		})
	}
}

// impatient is a model that does not wait for long.
type impatient struct{ model }

func (m *impatient) Eventually(ctx context.Context, _ string, check func(context.Context) error) error {
	m.pass(3 * time.Second)
	return check(ctx)
}
