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
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

type (
	// DirectPropagation is the type that these tests are about.
	DirectPropagation = testbed.DirectPropagation
	// Propagation is a test's DirectPropagation.
	Propagation = testbed.Propagation
	// Member is a member cluster of the fleet.
	Member = testbed.Member
)

// The members of every test: a push member and a pull member.
var (
	member1 = &Member{Name: "member1", Mode: "push"}
	member2 = &Member{Name: "member2", Mode: "pull"}
	members = []*Member{member1, member2}
)

// What all tests share.
var (
	bed *testbed.Bed
	// karmada is a client of the control plane that does not go through the audit.
	karmada client.WithWatch
)

// options configures the test bed. Files with their own build tag may change it.
var options = testbed.Options{
	Name: "e2e", Env: "E2E", Members: members, User: "e2e",
	Controller: true, Audited: true, Guardrails: true, Unbroken: true, Parallel: 16,
}

func TestMain(m *testing.M) {
	testbed.Main(m, options, func(made *testbed.Bed) error {
		bed, karmada = made, made.Karmada
		return nil
	})
}

// Namespace is a namespace for a single test, with additional methods for these
// tests.
type Namespace struct{ *testbed.Namespace }

func newNamespace(t *testing.T) *Namespace {
	t.Helper()
	return &Namespace{bed.NewNamespace(t)}
}

// in returns the namespace for use in a subtest.
func (ns *Namespace) in(t *testing.T) *Namespace {
	t.Helper()
	return &Namespace{ns.In(t)}
}
