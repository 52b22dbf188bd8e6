//go:build rollouts

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

package rollouts

import (
	"bytes"
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

type (
	// DirectPropagation is the type that these tests are about.
	DirectPropagation = testbed.DirectPropagation
	// Member is a member cluster of the fleet.
	Member = testbed.Member
)

// The members of every test.
var (
	member1 = &Member{Name: "member1", Mode: "push"}
	member2 = &Member{Name: "member2", Mode: "push"}
	member3 = &Member{Name: "member3", Mode: "push"}
	member4 = &Member{Name: "member4", Mode: "push"}
	member5 = &Member{Name: "member5", Mode: "pull"}
	member6 = &Member{Name: "member6", Mode: "pull"}
	members = []*Member{member1, member2, member3, member4, member5, member6}
)

// What all tests share.
var (
	bed *testbed.Bed
	// karmada is a client of the control plane.
	karmada client.WithWatch
	// works records all Works.
	works *testbed.Recorder
)

func TestMain(m *testing.M) {
	options := testbed.Options{
		Name: "rollouts", Env: "ROLLOUTS", Members: members, Controller: true, Parallel: 4,
		FleetFlags: []string{"--members", "member1=push,member2=push,member3=push,member4=push,member5=pull,member6=pull"},
	}
	testbed.Main(m, options, func(made *testbed.Bed) (err error) {
		bed, karmada = made, made.Karmada
		works, err = bed.Record(context.Background(), &workv1alpha1.WorkList{})
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

// fleetDoes runs a command of the fleet program.
func fleetDoes(t *testing.T, arguments ...string) {
	t.Helper()
	output := &bytes.Buffer{}
	if err := bed.Fleet.Run(context.Background(), output, arguments...); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}
