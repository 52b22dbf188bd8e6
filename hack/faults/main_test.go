//go:build faults

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

package faults

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

type (
	// DirectPropagation is the type that these tests are about.
	DirectPropagation = testbed.DirectPropagation
	// Member is a member cluster of the fleet.
	Member = testbed.Member
)

// The members of every test: two push members and one pull member. If one of each
// mode is stopped, one is left for comparison.
var (
	member1 = &Member{Name: "member1", Mode: "push"}
	member2 = &Member{Name: "member2", Mode: "pull"}
	member3 = &Member{Name: "member3", Mode: "push"}
	members = []*Member{member1, member2, member3}
)

// What all tests share.
var (
	bed *testbed.Bed
	// karmada is a client of the control plane.
	karmada client.WithWatch
	// works and clusters record all Works and Clusters.
	works, clusters *testbed.Recorder
)

func TestMain(m *testing.M) {
	options := testbed.Options{
		Name: "faults", Env: "FAULTS", Members: members, Controller: true,
		FleetFlags: []string{"--members", "member1=push,member2=pull,member3=push"},
		Finish:     figures.write,
	}
	testbed.Main(m, options, func(made *testbed.Bed) (err error) {
		bed, karmada = made, made.Karmada
		if works, err = bed.Record(context.Background(), &workv1alpha1.WorkList{}); err != nil {
			return err
		}
		clusters, err = bed.Record(context.Background(), &clusterv1alpha1.ClusterList{})
		return err
	})
}

// Namespace is a namespace for a single test, with additional methods for these
// tests.
type Namespace struct{ *testbed.Namespace }

func newNamespace(t *testing.T) *Namespace {
	t.Helper()
	return &Namespace{bed.NewNamespace(t)}
}

// newNamespaceOn is newNamespace for when only some members are available.
func newNamespaceOn(t *testing.T, there ...*Member) *Namespace {
	t.Helper()
	return &Namespace{bed.NewNamespaceOn(t, there...)}
}
