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
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	// people is the number of users; each has one object.
	people = 30
	// operationsPerRound is what users do until everything must settle.
	operationsPerRound = 120
)

// crowd is all users.
type crowd struct {
	t       *testing.T
	ns      *testbed.Namespace
	numbers *rand.Rand
	users   []*user

	operations, outages, settled int
	slowest                      time.Duration
}

// user wants one object.
type user struct {
	testbed.Lane
	suspended bool
}

func newCrowd(t *testing.T, ns *testbed.Namespace) *crowd {
	t.Helper()
	c := &crowd{t: t, ns: ns, numbers: bed.Seeded(t)}
	for i := range people {
		lane := testbed.Lane{Clusters: testbed.NamesOf(members), Says: "at first"}.Named(ns, fmt.Sprintf("user-%d", i))
		c.users = append(c.users, &user{Lane: lane})
		if err := c.users[i].brings(ns.Ctx); err != nil {
			t.Fatal(err)
		}
	}
	c.allSettle()
	return c
}

// round lets users act until they have done enough or the end is near. A member is
// down for the second third of the round.
func (c *crowd) round(number int, pace time.Duration, end time.Time) {
	c.t.Helper()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	down := members[c.numbers.IntN(len(members))]
	for i := 0; i < operationsPerRound && time.Now().Before(end); i++ {
		switch i {
		case operationsPerRound / 3:
			c.fleetDoes("stop", down.Name)
			c.outages++
		case operationsPerRound * 2 / 3:
			c.fleetDoes("start", down.Name)
		}
		<-tick.C
		c.acts(number)
	}
	c.fleetDoes("start", down.Name) // if the end came before
	c.ns.Within(patience, down.Name+" is Ready again", func(ctx context.Context) error { return isReady(ctx, down.Name) })
	for _, u := range c.users {
		u.suspended = false
		c.ns.Within(patience, "the API server accepts "+u.String(), u.brings)
	}
	c.allSettle()
}

// acts lets one user do one thing.
func (c *crowd) acts(round int) {
	c.t.Helper()
	u := c.users[c.numbers.IntN(len(c.users))]
	if c.numbers.IntN(5) == 0 {
		u.suspended = !u.suspended
	} else {
		u.Lane = u.Next(c.numbers, round*operationsPerRound+c.operations)
	}
	c.operations++
	if err := bed.Controller.Fault(); err != nil {
		c.t.Fatal(err)
	}
	if err := u.brings(c.ns.Ctx); err != nil {
		c.t.Logf("postponed: %v", err) // the user tries again at the end of the round
	}
}

// brings writes what the user wants to the control plane.
func (u *user) brings(ctx context.Context) error {
	if err := u.Brings(ctx); err != nil || len(u.Clusters) == 0 {
		return err
	}
	object := &testbed.DirectPropagation{}
	object.Namespace, object.Name = u.NS.Name, u.Name
	return testbed.Change(ctx, karmada, object, func(object *testbed.DirectPropagation) {
		object.Spec.Suspension.Dispatching = nil
		if u.suspended {
			object.Spec.Suspension.Dispatching = ptr.To(true)
		}
	})
}

func (c *crowd) fleetDoes(arguments ...string) {
	c.t.Helper()
	output := &bytes.Buffer{}
	if err := bed.Fleet.Run(context.Background(), output, arguments...); err != nil {
		c.t.Fatalf("%v\n%s", err, output)
	}
}

func isReady(ctx context.Context, name string) error {
	cluster := &clusterv1alpha1.Cluster{}
	if err := karmada.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
		return fmt.Errorf("the Cluster %s is not Ready: %+v", name, cluster.Status.Conditions)
	}
	return nil
}
