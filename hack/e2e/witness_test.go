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
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// witness checks that rows tell the truth. Whenever a row says that a member has
// confirmed a revision, the witness reads the member. It judges the claims later,
// when it knows the version of the resource for each revision.
//
// Versions are counted, and a member only moves forward. If a claim is true, what is
// read right after it is therefore at least as new. If the member moves on in
// between, a false claim can occasionally go unnoticed, but a true claim can never
// look false.
type witness struct {
	resource client.Object
	// version returns the version of the resource in a member's object.
	version func(client.Object) int
	of      *Propagation

	mu sync.Mutex
	// seen is the resourceVersion of the last state that was compared.
	seen     string
	versions map[string]int // by revision
	claims   []claim
}

// claim is a row that was True, and what the member had right after.
type claim struct {
	state    *DirectPropagation
	member   *Member
	revision string
	health   string
	found    client.Object
	err      error
}

// hasWitness creates a witness of a DirectPropagation that sees all its states.
func hasWitness(p *Propagation, resource client.Object, version func(client.Object) int) *witness {
	w := &witness{resource: resource, version: version, of: p, versions: map[string]int{}}
	ctx := context.WithoutCancel(p.NS.Ctx)
	p.OnEveryState(func(state *DirectPropagation) { w.see(ctx, state) })
	return w
}

func (w *witness) see(ctx context.Context, state *DirectPropagation) {
	for _, member := range members {
		row := testbed.RowOf(state, member.Name)
		if row.Applied != metav1.ConditionTrue {
			continue
		}
		found, err := member.Find(ctx, w.resource)
		w.mu.Lock()
		w.claims = append(w.claims, claim{state: state, member: member, revision: row.Revision, health: string(row.Health), found: found, err: err})
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = state.ResourceVersion
}

// catchesUp waits until the witness has compared the latest state of the object, if
// there is one.
func (w *witness) catchesUp() {
	w.of.NS.T.Helper()
	w.of.NS.Eventually("the witness has seen the latest state", func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if latest := w.of.Latest(); latest != nil && latest.ResourceVersion != w.seen {
			return fmt.Errorf("it has seen resourceVersion %q, and the latest is %q", w.seen, latest.ResourceVersion)
		}
		return nil
	})
}

// knows tells the witness which version a revision stands for. It returns an error
// if two versions have the same revision.
func (w *witness) knows(revision string, version int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, found := w.versions[revision]; found && known != version {
		return fmt.Errorf("revision %s stands for version %d and for version %d", revision, known, version)
	}
	w.versions[revision] = version
	return nil
}

// lies returns the false claims, and the number of all claims. judge, if not nil,
// checks the claims whose version the member still had when it was read.
func (w *witness) lies(judge func(claim) error) (lies []error, claims int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, heard := range slices.Clone(w.claims) {
		if err := w.weigh(heard, judge); err != nil {
			lies = append(lies, fmt.Errorf("%s was True for revision %s at resourceVersion %s, health %s: %w",
				heard.member, heard.revision, heard.state.ResourceVersion, heard.health, err))
		}
	}
	return lies, len(w.claims)
}

func (w *witness) weigh(heard claim, judge func(claim) error) error {
	claimed, known := w.versions[heard.revision]
	switch {
	case !known:
		return fmt.Errorf("no version of the resource has this revision: %v", w.versions)
	case heard.err != nil:
		return heard.err
	}
	found := w.version(heard.found)
	switch {
	case found < claimed:
		return fmt.Errorf("that is version %d, but the member had version %d", claimed, found)
	case found == claimed && judge != nil:
		return judge(heard)
	default:
		return nil
	}
}

// holds fails a test for every lie and returns the number of claims that it checked.
// There must be at least one claim per member.
func (w *witness) holds(t *testing.T, judge func(claim) error) (claims int) {
	t.Helper()
	w.catchesUp()
	lies, claims := w.lies(judge)
	for _, lie := range lies {
		t.Error(lie)
	}
	if claims < len(members) {
		t.Errorf("there were only %d claims about %d members", claims, len(members))
	}
	return claims
}

// numberIn returns the number at the end of a text, or -1 if there is none.
func numberIn(text string) int {
	number, err := strconv.Atoi(text[strings.LastIndex(text, " ")+1:])
	if err != nil {
		return -1
	}
	return number
}
