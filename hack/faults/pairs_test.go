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
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// parts are the processes that fail, alone or together with another one.
var parts = []string{"etcd", karmadaServer, aggregatedServer, karmadaControllers, "karmada-webhook", "member1-kube-apiserver", agent2}

// trafficLanes is the number of objects that users change meanwhile.
const trafficLanes = 6

// Each two parts of Karmada and its members are killed at the same time and started
// again, while users go on changing, moving, deleting and creating objects. Afterwards,
// the control plane and all members are as the users want them.
func TestPartsFailInPairs(t *testing.T) {
	ns := newNamespace(t)
	traffic := newTraffic(t, ns)
	for i, first := range parts {
		for _, second := range parts[i:] {
			traffic.survives(first, second)
		}
	}
	if err := bed.Controller.Fault(); err != nil {
		t.Error(err)
	}
	measured(t, fmt.Sprintf("pairs of parts killed at the same time under traffic, out of %d parts", len(parts)),
		fmt.Sprintf("%d, the slowest settled in %v", traffic.rounds, traffic.slowest.Round(time.Second)), "everything is as users want it")
}

// traffic is what users do.
type traffic struct {
	t       *testing.T
	ns      *Namespace
	numbers *rand.Rand
	lanes   []testbed.Lane
	// steady are further objects, which no user moves or deletes.
	steady  []testbed.Lane
	truth   *truth
	rounds  int
	slowest time.Duration
}

func newTraffic(t *testing.T, ns *Namespace) *traffic {
	t.Helper()
	f := &traffic{t: t, ns: ns, numbers: bed.Seeded(t), lanes: make([]testbed.Lane, trafficLanes), truth: newTruth(t, ns)}
	for i := range f.lanes {
		f.lanes[i] = testbed.Lane{Clusters: testbed.NamesOf(members), Says: "version 0"}.Named(ns.Namespace, fmt.Sprintf("lane-%d", i))
	}
	f.check(f.goesOn())
	f.settles("at the start")
	return f
}

// goesOn brings what users want now. While Karmada's API server is down, they try again.
func (f *traffic) goesOn() error { return f.goesOnWithin(testbed.Patience) }

func (f *traffic) goesOnWithin(limit time.Duration) error {
	return testbed.InParallel(len(f.lanes), func(i int) error {
		_, err := bed.AwaitFor(f.ns.Ctx, limit, "the API server accepts "+f.lanes[i].String(), f.lanes[i].Brings)
		return err
	})
}

// isTrue fails the test if a row was ever True for what a member had not run by then, or if
// the controller has exited.
func (f *traffic) isTrue() {
	f.t.Helper()
	claims := 0
	for _, lane := range slices.Concat(f.lanes, f.steady) {
		f.truth.catchesUp(lane)
		claims += f.truth.holds(f.t, lane)
	}
	if claims < len(f.lanes) {
		f.t.Errorf("only %d rows were True, so the test proves little", claims)
	}
	f.t.Logf("compared %d rows that were True with what the member had run by then", claims)
	if err := bed.Controller.Fault(); err != nil {
		f.t.Error(err)
	}
}

func (f *traffic) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// settles waits until everything is as users want it.
func (f *traffic) settles(when string) {
	f.t.Helper()
	for _, lane := range slices.Concat(f.lanes, f.steady) {
		f.ns.Within(rejoining, fmt.Sprintf("%s is reached %s", lane, when), lane.IsReached)
	}
}

// survives kills two parts, which may be the same, in the middle of changes, and starts
// them again in the middle of the next ones.
func (f *traffic) survives(first, second string) {
	f.t.Helper()
	f.rounds++
	killed := []string{first}
	if second != first {
		killed = append(killed, second)
	}
	f.wantsMore()
	f.check(f.goesOn())
	fleetDoes(f.t, append([]string{"stop", "--signal", "KILL"}, killed...)...)
	f.wantsMore()
	going := make(chan error, 1)
	go func() { going <- f.goesOn() }()
	back := startsInOrder(f.t, slices.DeleteFunc(slices.Clone(killed), isAgent), slices.DeleteFunc(slices.Clone(killed), isServer))
	f.check(<-going)
	allReady(f.t)
	f.settles(fmt.Sprintf("after %v were killed", killed))
	f.slowest = max(f.slowest, time.Since(back))
	f.t.Logf("%v: everything is right %v after they were started again", killed, time.Since(back).Round(time.Millisecond))
}

func isAgent(name string) bool  { return name == agent2 }
func isServer(name string) bool { return name != agent2 }

// wantsMore changes what users want.
func (f *traffic) wantsMore() {
	for i := range f.lanes {
		f.lanes[i] = f.lanes[i].Next(f.numbers, f.rounds)
	}
}
