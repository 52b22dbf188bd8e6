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
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/faults/agents"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	// overloadClusters is the number of clusters of each object of the large tenant.
	overloadClusters = 50
	// overloadWorks is the number of Works of the large tenant, unless
	// FAULTS_OVERLOAD_WORKS says otherwise.
	overloadWorks = 1000
	// overloaded is how long each overload lasts.
	overloaded = time.Minute
	// workers is how many requests the controller has in flight by default: as many as
	// it reconciles objects of both kinds and writes Works concurrently.
	workers = 16 + 16 + 32
	// smallPatience is how long the change of a small object may take while the API
	// server is overloaded, and smallRequests how many requests may pass meanwhile if the
	// rate is so low that this takes longer: on a slow machine, the usual rate is low, too.
	// The object needs a reset, a spec, a status and at times a read, one after another, and
	// each of them may stand behind the requests of all workers.
	smallPatience, smallRequests = 45 * time.Second, 6 * workers
	// fewSeats is how many writes pass per second at least if the controller has few seats.
	// That depends on the seats (34 were measured), and not on how fast the machine is.
	fewSeats = 20
	// overloadPatience is how long all Works may take with all capacity, or
	// overloadPerWork for each if that is longer.
	overloadPatience = 10 * time.Minute
	overloadPerWork  = 100 * time.Millisecond
)

// overload is an API server that has too little capacity for a large tenant.
type overload struct {
	large, small *Namespace
	objects      int
	// revisions are those of the ConfigMaps of the large tenant.
	revisions  []string
	played     *agents.Agents
	controller *replica
	gate       *bottleneck
	// usual is the number of requests that the controller makes without a limit in the
	// busiest second.
	usual float64
}

// The objects of a large tenant change all at once while the API server has little
// capacity: few seats of API priority and fairness, then a fiftieth of the usual rate.
// The controller keeps its lease, uses the capacity there is, and does not try again more
// often than its workers can. A small tenant does not wait for the large one.
func TestOverload(t *testing.T) {
	o := newOverload(t)
	o.fills()
	limited := o.hasFewSeats()
	o.bears(overloading{name: "few seats of API priority and fairness", least: min(o.usual/10, fewSeats), patience: smallPatience})
	limited()
	rate := o.usual / 50
	patience := max(smallPatience, time.Duration(smallRequests/rate*float64(time.Second)))
	o.bears(overloading{name: "a fiftieth of the usual rate", rate: rate, least: rate / 2, patience: patience})
	o.recovers()
	o.empties()
}

// patience is how long all Works may take with all capacity.
func (o *overload) patience() time.Duration {
	return max(overloadPatience, time.Duration(o.objects*overloadClusters)*overloadPerWork)
}

func newOverload(t *testing.T) *overload {
	t.Helper()
	count := overloadWorks
	if text := os.Getenv("FAULTS_OVERLOAD_WORKS"); text != "" {
		given, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("reading FAULTS_OVERLOAD_WORKS: %v", err)
		}
		count = given
	}
	o := &overload{large: newNamespace(t), small: newNamespace(t), objects: max(1, count/overloadClusters), gate: &bottleneck{}}
	o.revisions = make([]string, o.objects)
	stops(t, karmadaControllers)
	o.played = &agents.Agents{
		Client: karmada, Clusters: agents.Names("played", overloadClusters), Writers: 16,
		Enablements: []clusterv1alpha1.APIEnablement{{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}}},
	}
	if err := o.played.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- o.played.Serve(serving) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-served, o.played.Leave(context.Background())); err != nil {
			t.Error(err)
		}
	})
	o.starts(t)
	return o
}

// starts replaces the controller of the other tests with one behind the bottleneck.
func (o *overload) starts(t *testing.T) {
	t.Helper()
	withoutController(t)
	o.gate.sets(0)
	o.controller = newReplica(t, "overload")
	o.controller.audit.Gate(o.gate.ServeHTTP)
	if err := o.controller.Start("--leader-elect=true"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.controller.Terminate() })
	holdsLease(t)
	if err := o.gate.learns(t.Context(), o.controller.audit); err != nil {
		t.Fatal(err)
	}
}

// fills creates the objects of both tenants, and measures the usual rate of requests.
func (o *overload) fills() {
	t := o.large.T
	o.says("at first")
	o.small.Writes("one", "at first")
	o.small.Propagates("one", testbed.ConfigMap("one", "")).To(member2)
	began := time.Now()
	o.gate.sets(0)
	err := o.inTurn(func(i int) error {
		return karmada.Create(o.large.Ctx, o.object(i))
	})
	if err != nil {
		t.Fatal(err)
	}
	o.large.Within(o.patience(), "all objects are Ready", o.allReady)
	took := time.Since(began)
	o.usual = float64(o.gate.flow().peak)
	o.small.Propagation("one").Settles(o.small.Revision(testbed.ConfigMap("one", "")), time.Time{})
	measured(t, fmt.Sprintf("%d objects × %d clusters without a limit: created → all Ready", o.objects, overloadClusters),
		fmt.Sprintf("%.0f s, up to %.0f requests of the controller per second", took.Seconds(), o.usual), "")
}

func (o *overload) object(i int) *DirectPropagation {
	return testbed.NewDirectPropagation(o.large.Name, nameOf(i), testbed.Reference("v1", "ConfigMap", nameOf(i)), o.played.Clusters...)
}

func nameOf(i int) string { return fmt.Sprintf("large-%d", i) }

// inTurn calls a function for each object of the large tenant, several at a time.
func (o *overload) inTurn(do func(int) error) error {
	const together = 8
	return testbed.InParallel(together, func(first int) error {
		for i := first; i < o.objects; i += together {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// says writes the ConfigMaps of the large tenant.
func (o *overload) says(what string) {
	o.large.T.Helper()
	err := o.inTurn(func(i int) error {
		settings := testbed.ConfigMap(nameOf(i), what)
		settings.Namespace = o.large.Name
		if err := testbed.Put(o.large.Ctx, karmada, settings, testbed.Saying(what)); err != nil {
			return err
		}
		resource, err := o.large.ResourceOf(o.large.Ctx, o.object(i))
		if err == nil {
			o.revisions[i], err = testbed.RevisionOf(propagationv1alpha1.ConflictAbort, resource)
		}
		return err
	})
	if err != nil {
		o.large.T.Fatal(err)
	}
}

// allReady returns an error unless all objects of the large tenant are Ready with the
// current content of their ConfigMaps.
func (o *overload) allReady(context.Context) error {
	if err := o.controller.Fault(); err != nil {
		o.large.T.Fatal(err)
	}
	for i := range o.objects {
		state := o.large.Propagation(nameOf(i)).Latest()
		if state == nil {
			return fmt.Errorf("%s does not exist", nameOf(i))
		}
		if err := testbed.IsReady(state, state.Generation, o.revisions[i]); err != nil {
			return fmt.Errorf("%s: %w", nameOf(i), err)
		}
	}
	return nil
}

// hasFewSeats lets API priority and fairness give the controller as little as it can,
// until the returned function is called.
func (o *overload) hasFewSeats() (end func()) {
	t := o.large.T
	meta := metav1.ObjectMeta{Name: "overload"}
	level := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: ptr.To[int32](1), BorrowingLimitPercent: ptr.To[int32](0),
			LimitResponse: flowcontrolv1.LimitResponse{
				Type:    flowcontrolv1.LimitResponseTypeQueue,
				Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 4},
			},
		},
	}}
	schema := &flowcontrolv1.FlowSchema{ObjectMeta: meta, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: meta.Name},
		MatchingPrecedence:         1000, // after the FlowSchema of the lease
		DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
		Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: testbed.ControllerAccount}}},
			ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
				Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"},
			}},
		}},
	}}
	end = func() {
		ctx := context.Background()
		if err := errors.Join(client.IgnoreNotFound(karmada.Delete(ctx, schema)), client.IgnoreNotFound(karmada.Delete(ctx, level))); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	if err := errors.Join(karmada.Create(t.Context(), level), karmada.Create(t.Context(), schema)); err != nil {
		t.Fatal(err)
	}
	return end
}

// overloading is one kind of overload.
type overloading struct {
	name string
	// rate is the limit in requests per second; 0 means none.
	rate float64
	// least is the number of successful writes per second that is no collapse.
	least float64
	// patience is how long the change of a small object may take.
	patience time.Duration
}

// bears lets the large tenant change all its objects, and then the small one change its
// object.
func (o *overload) bears(kind overloading) {
	t, limit := o.large.T, kind.name
	o.gate.sets(kind.rate)
	began := time.Now()
	o.says(limit)
	o.large.Within(testbed.Patience, "the controller is busy", func(context.Context) error {
		if written := o.written(began); written < workers/4 {
			return fmt.Errorf("%d writes so far", written)
		}
		return nil
	})
	revision, at := o.small.Writes("one", limit)
	lasted(t, limit+": small tenant's object changed → Ready", o.small.Propagation("one").SettlesWithin(revision, at, kind.patience).Sub(at), kind.patience)
	if err := o.allReady(t.Context()); err == nil {
		t.Errorf("%s: the large tenant had nothing to wait for, so the test proves nothing", limit)
	}
	o.large.Throughout(overloaded-min(overloaded, time.Since(began)), "the controller runs", func(context.Context) error { return o.controller.Fault() })
	took, passed, written := time.Since(began).Seconds(), o.gate.flow(), o.written(began)
	refused := passed.rejected + refusals(o.controller.audit.Since(began, nil))
	measured(t, limit+": successful writes of the controller per second", fmt.Sprintf("%.1f (%v)", float64(written)/took, passed), fmt.Sprintf("≥ %.1f", kind.least))
	if float64(written)/took < kind.least {
		t.Errorf("%s: %d successful writes in %.0f s, want %.1f per second", limit, written, took, kind.least)
	}
	measured(t, limit+": requests rejected with status 429 per second", fmt.Sprintf("%.1f", float64(refused)/took), fmt.Sprintf("≤ %d, one for each worker", workers))
	if float64(refused)/took > workers {
		t.Errorf("%s: %d requests were rejected in %.0f s", limit, refused, took)
	}
	if refused == 0 {
		t.Errorf("%s: no request was rejected, so the test proves nothing", limit)
	}
}

// written counts the successful writes of the controller since a moment.
func (o *overload) written(since time.Time) int {
	return len(o.controller.audit.Since(since, func(w testbed.Write) bool { return w.Status < http.StatusMultipleChoices }))
}

// recovers removes the limit. Everything becomes Ready, and no Work is written more
// often than the changes need.
func (o *overload) recovers() {
	t := o.large.T
	o.gate.sets(0)
	began := time.Now()
	settled := o.small.Propagation("one").Settles(o.small.Revision(testbed.ConfigMap("one", "")), time.Time{})
	lasted(t, "limit removed → small tenant's object Ready", max(0, settled.Sub(began)), smallPatience)
	o.large.Within(o.patience(), "all objects are Ready", o.allReady)
	measured(t, "limit removed → all objects of the large tenant Ready", fmt.Sprintf("%.0f s", time.Since(began).Seconds()), "")
	o.wroteNoMoreThanNeeded()
}

// wroteNoMoreThanNeeded checks that no Work was written more often than once for its
// creation and twice, with the reset of its conditions, for each of two changes.
func (o *overload) wroteNoMoreThanNeeded() {
	const needed = 1 + 2*2
	counts, most := map[string]int{}, 0
	for _, w := range o.controller.audit.Since(time.Time{}, func(w testbed.Write) bool {
		return w.Status < http.StatusMultipleChoices && (w.Resource == "works" || w.Resource == "works/status")
	}) {
		counts[w.Namespace+"/"+w.Name]++
		most = max(most, counts[w.Namespace+"/"+w.Name])
	}
	measured(o.large.T, "creation and two changes under overload: most writes to one Work", strconv.Itoa(most), fmt.Sprintf("≤ %d", needed))
	if most > needed {
		o.large.T.Errorf("a Work was written %d times, want at most %d", most, needed)
	}
}

// empties deletes the objects of the large tenant, which takes longer than a
// namespace waits for when its test ends.
func (o *overload) empties() {
	t := o.large.T
	began := time.Now()
	if err := karmada.DeleteAllOf(o.large.Ctx, &DirectPropagation{}, client.InNamespace(o.large.Name)); err != nil {
		t.Fatal(err)
	}
	o.large.Within(o.patience(), "the objects of the large tenant are gone", func(ctx context.Context) error {
		list := &propagationv1alpha1.DirectPropagationList{}
		if err := karmada.List(ctx, list, client.InNamespace(o.large.Name), client.Limit(1)); err != nil || len(list.Items) == 0 {
			return err
		}
		return fmt.Errorf("%s and others still exist", list.Items[0].Name)
	})
	left := &workv1alpha1.WorkList{}
	for _, object := range works.All() {
		if work, ok := object.(*workv1alpha1.Work); ok && work.Annotations[propagationv1alpha1.OwnerNamespaceAnnotation] == o.large.Name {
			if err := karmada.Get(o.large.Ctx, client.ObjectKeyFromObject(work), work); !apierrors.IsNotFound(err) {
				left.Items = append(left.Items, *work)
			}
		}
	}
	if len(left.Items) > 0 {
		t.Errorf("%d Works are left, the first: %s/%s", len(left.Items), left.Items[0].Namespace, left.Items[0].Name)
	}
	measured(t, fmt.Sprintf("%d objects deleted → gone with all their Works", o.objects), fmt.Sprintf("%.0f s", time.Since(began).Seconds()), "")
}
