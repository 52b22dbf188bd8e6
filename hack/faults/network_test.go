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
	"fmt"
	"syscall"
	"testing"
	"time"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// network holds the links between the components of the fleet.
type network struct {
	links map[string]*testbed.Link
}

const (
	// disturbance is how long a link works badly.
	disturbance = time.Minute
	// changesPerDisturbance is how many changes users make meanwhile.
	changesPerDisturbance = 100
)

// The links, other than those to the members.
const (
	fromController = "controller"
	fromKarmada    = karmadaControllers
	fromAgent      = agent2
)

// All connections between the controller, Karmada's components and the members are slow,
// lose packets or are narrow, while users go on making changes. Everything still becomes
// as they want it, and no row is True too early.
func TestBadNetwork(t *testing.T) {
	all := newNetwork(t)
	for name, state := range map[string]testbed.LinkState{
		"slow":   {Delay: 200 * time.Millisecond, Jitter: 100 * time.Millisecond},
		"lossy":  {Delay: 20 * time.Millisecond, Loss: 0.05},
		"narrow": {BytesPerSecond: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			traffic := newTraffic(t, newNamespace(t))
			all.become(state)
			defer all.become(testbed.LinkState{})
			for range 3 {
				traffic.endures("a change through a network that is "+name, func() {})
			}
			traffic.isTrue()
			measured(t, fmt.Sprintf("a network that is %s: %+v", name, state), fmt.Sprintf("%d rounds of changes, the slowest settled in %v", traffic.rounds, traffic.slowest.Round(time.Second)), "everything is as users want it")
		})
	}
}

// All connections are reset in the middle of responses, or nothing arrives anymore and
// nobody is told, while users go on making changes. When this ends, everything becomes as
// they want it. No row is True too early.
func TestNetworkFails(t *testing.T) {
	all := newNetwork(t)
	for name, state := range map[string]testbed.LinkState{
		"cut":    {CutAfter: 20_000},
		"silent": {Silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			traffic := newTraffic(t, newNamespace(t))
			traffic.hasSteady()
			before := all.cut()
			defer all.become(testbed.LinkState{})
			traffic.endures("the network was "+name, func() {
				all.become(state)
				traffic.makesChangesFor(disturbance)
				all.become(testbed.LinkState{})
			})
			if state.CutAfter > 0 && all.cut() == before {
				t.Error("no connection was cut, so the test proves nothing")
			}
			traffic.isTrue()
			measured(t, fmt.Sprintf("a network that is %s for %v: %+v", name, disturbance, state), fmt.Sprintf("settled in %v", traffic.slowest.Round(time.Second)), "≤ "+rejoining.String())
		})
	}
}

// The connections of one component after another become dead without a reset, as when a
// gateway loses its table of connections. New connections work. The component notices by
// itself.
func TestDeadConnections(t *testing.T) {
	all := newNetwork(t)
	traffic := newTraffic(t, newNamespace(t))
	for _, name := range []string{fromController, fromKarmada, fromAgent, member1.Name, member2.Name} {
		traffic.endures("the connections of "+name+" died", all.links[name].Forgets)
	}
	traffic.endures("all connections died", func() {
		for _, link := range all.links {
			link.Forgets()
		}
	})
	traffic.isTrue()
	measured(t, "connections that die without a reset", fmt.Sprintf("%d times, the slowest settled in %v", traffic.rounds, traffic.slowest.Round(time.Second)), "≤ "+rejoining.String())
}

// hasSteady adds objects that stay, for makesChangesFor.
func (f *traffic) hasSteady() {
	f.t.Helper()
	for i := range trafficLanes {
		lane := testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 0"}.Named(f.ns.Namespace, fmt.Sprintf("steady-%d", i))
		f.check(lane.Brings(f.ns.Ctx))
		f.steady = append(f.steady, lane)
	}
	f.settles("at the start")
}

// makesChangesFor changes what steady objects propagate, for a while. The user reaches the
// API server directly.
func (f *traffic) makesChangesFor(duration time.Duration) {
	f.t.Helper()
	pace := time.NewTicker(duration / changesPerDisturbance)
	defer pace.Stop()
	for i := range changesPerDisturbance {
		lane := &f.steady[i%len(f.steady)]
		lane.Says = fmt.Sprintf("change %d", i)
		f.check(lane.Brings(f.ns.Ctx))
		<-pace.C
	}
}

// newNetwork puts links between the controller, Karmada's controllers and the agent and
// the Karmada API server, and between Karmada's controllers or the agent and the members.
func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{links: map[string]*testbed.Link{}}
	through := map[string]string{}
	for name, kubeconfig := range map[string]string{
		fromController: bed.Controller.Kubeconfig,
		fromKarmada:    bed.Fleet.Kubeconfig("karmada"),
		fromAgent:      bed.Fleet.Kubeconfig("karmada"),
		"member1":      bed.Fleet.Kubeconfig("member1"),
		"member2":      bed.Fleet.Kubeconfig("member2"),
		"member3":      bed.Fleet.Kubeconfig("member3"),
	} {
		link, path, err := bed.LinkTo("link-"+name, kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		n.links[name], through[name] = link, path
	}
	t.Cleanup(func() {
		for _, link := range n.links {
			_ = link.Close()
		}
	})
	n.isUsedByController(t, through)
	n.isUsedByKarmada(t, through)
	allReady(t)
	return n
}

func (n *network) isUsedByController(t *testing.T, through map[string]string) {
	t.Helper()
	restart := func(arguments ...string) {
		// Before that, a signal ends it as if it had crashed.
		if err := bed.Controller.AwaitLog("starting workers"); err != nil {
			t.Error(err)
		}
		if err := bed.Controller.End(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := bed.Controller.Start(arguments...); err != nil {
			t.Error(err)
		}
	}
	restart("--kubeconfig=" + through[fromController])
	t.Cleanup(func() { restart() })
}

func (n *network) isUsedByKarmada(t *testing.T, through map[string]string) {
	t.Helper()
	push := []*Member{member1, member3}
	direct := map[string]string{}
	for _, m := range push {
		direct[m.Name] = movesTo(t, m, "https://"+n.links[m.Name].Address())
	}
	fleetDoes(t, "stop", karmadaControllers, agent2)
	fleetDoes(t, "start", karmadaControllers, "--arg=--kubeconfig="+through[fromKarmada])
	fleetDoes(t, "start", agent2, "--arg=--karmada-kubeconfig="+through[fromAgent], "--arg=--kubeconfig="+through["member2"])
	t.Cleanup(func() {
		for _, m := range push {
			movesTo(t, m, direct[m.Name])
		}
		fleetDoes(t, "stop", karmadaControllers, agent2)
		starts(t, karmadaControllers)
		starts(t, agent2)
		allReady(t)
	})
}

// movesTo changes the address at which Karmada reaches a member, and returns the one
// before.
func movesTo(t *testing.T, m *Member, address string) (before string) {
	t.Helper()
	cluster := &clusterv1alpha1.Cluster{}
	cluster.Name = m.Name
	if err := testbed.Change(context.Background(), karmada, cluster, func(cluster *clusterv1alpha1.Cluster) {
		before, cluster.Spec.APIEndpoint = cluster.Spec.APIEndpoint, address
	}); err != nil {
		t.Fatal(err)
	}
	return before
}

func (n *network) become(state testbed.LinkState) {
	for _, link := range n.links {
		link.Becomes(state)
	}
}

func (n *network) cut() (count int) {
	for _, link := range n.links {
		count += link.Cut()
	}
	return count
}
