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

// witness checks that rows tell the truth: whenever one says that a member has
// confirmed a revision, it reads the member, and it judges later, when all
// versions of the resource are known by their revision.
//
// Versions are counted, and a member only ever goes forward. What is read just
// after a claim is therefore at least as new as what the claim speaks of, or
// the claim was false. That the member may have moved on in between can hide a
// false claim now and then; it can never make one up.
type witness struct {
	resource client.Object
	// version reads from a member's object which version of the resource it is.
	version func(client.Object) int

	mu       sync.Mutex
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

// hasWitness makes a witness of all that a DirectPropagation says from now on.
func hasWitness(p *Propagation, resource client.Object, version func(client.Object) int) *witness {
	w := &witness{resource: resource, version: version, versions: map[string]int{}}
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
}

// knows teaches the witness which version a revision stands for. That two
// versions have the same revision is an error.
func (w *witness) knows(revision string, version int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, found := w.versions[revision]; found && known != version {
		return fmt.Errorf("revision %s stands for version %d and for version %d", revision, known, version)
	}
	w.versions[revision] = version
	return nil
}

// lies returns what is wrong with the claims that were heard, and how many
// there were. judge, if not nil, looks at claims of a version that the member
// still had when it was read.
func (w *witness) lies(judge func(claim) error) (lies []error, claims int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, heard := range slices.Clone(w.claims) {
		if err := w.weigh(heard, judge); err != nil {
			lies = append(lies, fmt.Errorf("%s said True for revision %s at resourceVersion %s, health %s: %w",
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
		return fmt.Errorf("that is version %d, and the member had version %d", claimed, found)
	case found == claimed && judge != nil:
		return judge(heard)
	default:
		return nil
	}
}

// holds fails a test for every lie, and returns how many claims it judged. At
// least the newest must have been heard of every member.
func (w *witness) holds(t *testing.T, judge func(claim) error) (claims int) {
	t.Helper()
	lies, claims := w.lies(judge)
	for _, lie := range lies {
		t.Error(lie)
	}
	if claims < len(members) {
		t.Errorf("only %d claims were heard of %d members", claims, len(members))
	}
	return claims
}

// numberIn reads the number at the end of a text; -1 when there is none.
func numberIn(text string) int {
	number, err := strconv.Atoi(text[strings.LastIndex(text, " ")+1:])
	if err != nil {
		return -1
	}
	return number
}
