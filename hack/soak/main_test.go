//go:build soak

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

package soak

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

var (
	member1 = &testbed.Member{Name: "member1", Mode: "push"}
	member2 = &testbed.Member{Name: "member2", Mode: "pull"}
	member3 = &testbed.Member{Name: "member3", Mode: "push"}
	members = []*testbed.Member{member1, member2, member3}
)

var (
	bed *testbed.Bed
	// karmada is a client of the control plane.
	karmada client.WithWatch
)

// TestMain starts the fleet and the controller, and stops them after the test.
func TestMain(m *testing.M) {
	options := testbed.Options{
		Name: "soak", Env: "SOAK", Members: members, Controller: true,
		FleetFlags: []string{"--members", "member1=push,member2=pull,member3=push"},
	}
	testbed.Main(m, options, func(made *testbed.Bed) error {
		bed, karmada = made, made.Karmada
		return nil
	})
}
