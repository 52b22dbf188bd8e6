//go:build e2e

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

package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// 20 resources change 200 times, usually before the previous change has arrived. No
// row is ever True for content that the member does not have, and in the end all
// members have the newest version.
func TestNoRowLies(t *testing.T) {
	t.Parallel()
	const resources, changes = 20, 200
	ns := newNamespace(t)
	numbers := bed.Seeded(t)
	changing := make([]*changing, resources)
	for i := range changing {
		changing[i] = ns.beginsChanging(fmt.Sprintf("settings-%d", i))
	}
	for range changes {
		if err := changing[numbers.IntN(resources)].change(ns.Ctx); err != nil {
			t.Fatal(err)
		}
	}
	claims := 0
	for _, one := range changing {
		one.propagation.BecomesReady()
		claims += one.truth.holds(t, nil)
		one.staysTrue()
	}
	t.Logf("checked %d claims about members", claims)
}

// changing is a resource that changes, with a witness.
type changing struct {
	ns          *Namespace
	propagation *Propagation
	settings    *unstructured.Unstructured
	truth       *witness
	version     int
}

// beginsChanging creates a resource with version 1 and propagates it.
func (ns *Namespace) beginsChanging(name string) *changing {
	ns.T.Helper()
	settings := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"says": "version 1"}}}
	settings.SetAPIVersion("v1")
	settings.SetKind("ConfigMap")
	settings.SetName(name)
	ns.Has(settings)
	typed := testbed.ConfigMap(name, "")
	typed.Namespace = ns.Name
	c := &changing{ns: ns, settings: settings, version: 1}
	c.propagation = ns.Propagates(name, settings).To(member1, member2)
	c.truth = hasWitness(c.propagation, typed, versionOfConfigMap)
	if err := c.learn(); err != nil {
		ns.T.Fatal(err)
	}
	return c
}

// learn tells the witness the revision of the version that was just written. It
// computes the revision from the API server's response.
func (c *changing) learn() error {
	revision, err := testbed.RevisionOf(propagationv1alpha1.ConflictAbort, c.settings)
	if err != nil {
		return err
	}
	return c.truth.knows(revision, c.version)
}

func (c *changing) change(ctx context.Context) error {
	c.version++
	c.settings.Object["data"] = map[string]any{"says": fmt.Sprintf("version %d", c.version)}
	if err := karmada.Update(ctx, c.settings); err != nil {
		return fmt.Errorf("changing %s: %w", c.settings.GetName(), err)
	}
	return c.learn()
}

// staysTrue checks that Ready stayed True after it was True for the newest version.
func (c *changing) staysTrue() {
	c.ns.T.Helper()
	ready := meta.FindStatusCondition(c.propagation.Latest().Status.Conditions, propagationv1alpha1.ConditionReady)
	if ready.Status != metav1.ConditionTrue {
		c.ns.T.Errorf("Ready of %s was True with the newest version, and then %s", c.propagation.Name, testbed.Say(ready))
	}
}
