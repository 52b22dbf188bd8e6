//go:build e2e_helm

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

package helm

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// What all tests share.
var (
	bed     *testbed.Bed
	karmada client.Client
	// host is a client of the cluster into which the chart is installed.
	host client.WithWatch
	// helm3 is the path of Helm 3, with which most releases are installed.
	helm3   string
	members = []*testbed.Member{{Name: "member1", Mode: "push"}, {Name: "member2", Mode: "pull"}}
)

func TestMain(m *testing.M) {
	// The test bed does not start the controller, because the chart installs it.
	options := testbed.Options{Name: "e2e-helm", Env: "E2E", Members: members, FleetFlags: []string{"--host"}}
	testbed.Main(m, options, func(made *testbed.Bed) (err error) {
		bed, karmada = made, made.Karmada
		if host, err = bed.Connect("host"); err != nil {
			return fmt.Errorf("the fleet needs a host cluster (fleet up --host): %w", err)
		}
		helm3, err = bed.Fleet.BuildTool(context.Background(), "helm")
		return err
	})
}

// eventually waits until check returns nil, and otherwise fails with its last error.
// Cleanup waits too, after the test's own context is done.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := bed.Await(context.WithoutCancel(t.Context()), what, check); err != nil {
		t.Fatal(err)
	}
}
