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

package propagation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// tenancy is a bench on which shop/web acts for an account.
type tenancy struct {
	*bench
	// rights are the permissions of accounts.
	rights map[string]bool
	clock  *clocktesting.FakePassiveClock
}

func newTenancy(t *testing.T, rights ...string) *tenancy {
	t.Helper()
	object := webPropagation()
	object.Spec.ServiceAccountName = "tenant"
	tenancy := &tenancy{
		bench:  newBench(t, webDeployment(), object, memberCluster("member1"), memberCluster("member2")),
		rights: map[string]bool{}, clock: clocktesting.NewFakePassiveClock(now),
	}
	tenancy.grant(rights...)
	tenancy.may = func(permission string) (bool, error) { return tenancy.rights[permission], nil }
	tenancy.reviews = newReviews(tenancy.Client, tenancy.clock)
	return tenancy
}

// grant makes these permissions the only ones, from now on.
func (b *tenancy) grant(rights ...string) {
	clear(b.rights)
	for _, right := range rights {
		b.rights[right] = true
	}
	// The cached answers expire.
	b.clock.SetTime(b.clock.Now().Add(allowedFor))
}

// expect settles, and compares the questions and the writes since the last call.
func (b *tenancy) expect(t *testing.T, what string, asked, written []string) {
	t.Helper()
	b.settle(t)
	var writes []string
	for _, write := range b.writes {
		if !strings.Contains(write, "DirectPropagation") {
			writes = append(writes, write)
		}
	}
	if diff := cmp.Diff(asked, b.asked); diff != "" {
		t.Errorf("%s: asked (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(written, writes); diff != "" {
		t.Errorf("%s: written (-want +got):\n%s", what, diff)
	}
	b.asked, b.writes = nil, nil
}

func (b *tenancy) delete(t *testing.T, cluster string) {
	t.Helper()
	for _, work := range b.works(t) {
		if render.ClusterOf(work.Namespace) != cluster {
			continue
		}
		work.Finalizers = nil
		if err := errors.Join(b.server.Update(t.Context(), &work), client.IgnoreNotFound(b.server.Delete(t.Context(), &work))); err != nil {
			t.Fatal(err)
		}
	}
}

// restart forgets what a process loses when it restarts.
func (b *tenancy) restart() {
	b.memories.of(web).forgetResource()
	b.memories.of(web).granted = grantedRevisions{}
	b.ledger = cached.NewLedger(b.Clock)
	b.reviews = newReviews(b.Client, b.clock)
}

// rows returns the rows of the status in short form: cluster, applied, reason.
func (b *tenancy) rows(t *testing.T) []string {
	t.Helper()
	short := []string{}
	for _, row := range b.propagation(t).Status.Clusters {
		short = append(short, fmt.Sprintf("%s %s %s", row.Name, row.Applied, row.Reason))
	}
	return short
}

func (b *tenancy) expectRows(t *testing.T, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, b.rows(t)); diff != "" {
		t.Errorf("%s: rows (-want +got):\n%s", what, diff)
	}
}

// edit changes the content of a Work manually.
func (b *tenancy) edit(t *testing.T, cluster string) {
	t.Helper()
	for _, work := range b.works(t) {
		if render.ClusterOf(work.Namespace) != cluster {
			continue
		}
		manifest := &work.Spec.Workload.Manifests[0]
		manifest.Raw = []byte(strings.ReplaceAll(string(manifest.Raw), "nginx:1", "something:else"))
		if err := b.server.Update(t.Context(), &work); err != nil {
			t.Fatal(err)
		}
	}
}
