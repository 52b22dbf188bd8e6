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

package karmada

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
)

// restless is a world in which things happen at random.
type restless struct {
	*world
	member *Member
	random *rand.Rand
	key    types.NamespacedName
	// says counts what the Work has said.
	says int
}

func (r *restless) next() *unstructured.Unstructured {
	r.says++
	return configMap(fmt.Sprint("number ", r.says))
}

// happens does something that people, networks and processes do.
func (r *restless) happens() {
	r.Helper()
	work := &workv1alpha1.Work{}
	exists := r.c.Get(r.ctx, r.key, work) == nil
	switch what := r.random.IntN(14); {
	case !exists:
		r.must(r.c.Create(r.ctx, workOf(r.T, r.next(), "m1")))
	case what < 4 && work.DeletionTimestamp == nil:
		r.changes(r.key, func(work *workv1alpha1.Work) { setManifest(r.T, work, r.next(), r.says) })
	case what == 4:
		r.resets(r.key)
	case what == 5:
		r.must(r.c.Delete(r.ctx, work))
	case what == 6 && work.DeletionTimestamp == nil:
		r.changes(r.key, func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(r.random.IntN(2) == 0) })
	case what == 7:
		_ = r.member.Delete(settingsKey) // it may not be there
	case what == 8:
		_ = r.member.Edit(settingsKey, func(object *unstructured.Unstructured) {
			r.must(unstructured.SetNestedField(object.Object, "edited", "data", "says"))
		})
	case what == 9:
		r.member.Cut()
	case what == 10:
		r.member.Mend()
	case what == 11:
		r.k.StopManager()
		r.k.StopAgent("m1")
		r.k.StartManager()
		r.k.StartAgent("m1")
	case what == 12:
		r.member.Refuse = func(string, *unstructured.Unstructured) error { return errors.New("not now") }
	case what == 13:
		r.member.Refuse, r.member.LoseAnswer = nil, func() bool { return r.random.IntN(3) == 0 }
	}
}

// calms ends all faults, and asks for one more attempt.
func (r *restless) calms() {
	r.Helper()
	r.member.Refuse, r.member.LoseAnswer = nil, nil
	r.member.Mend()
	r.pass(2 * time.Minute)
	work := &workv1alpha1.Work{}
	if r.c.Get(r.ctx, r.key, work) == nil && work.DeletionTimestamp == nil {
		r.changes(r.key, func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = nil })
		r.resets(r.key)
		r.changes(r.key, func(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(false) })
	}
	r.pass(40 * time.Minute)
}

// Whatever happens, in whatever order the actors act: when the faults have ended, a Work
// that is being deleted is gone, and the member runs what a Work that is there says.
func TestEverythingComesToRest(t *testing.T) {
	for _, mode := range []clusterv1alpha1.ClusterSyncMode{push, pull} {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("%s/%d", mode, seed), func(t *testing.T) {
				t.Parallel()
				w, member := shop(t, mode)
				r := &restless{world: w.at(seed), member: member, random: rand.New(rand.NewPCG(seed, 1)), key: keyOf(workOf(t, configMap(""), "m1"))}
				for range 40 {
					r.happens()
					for range r.random.IntN(12) {
						if actions := r.actions(); len(actions) > 0 {
							r.take(actions[r.choose(len(actions))])
						}
					}
					if r.random.IntN(3) == 0 {
						r.pass(time.Duration(r.random.IntN(20)) * time.Second)
					}
				}
				r.calms()
				work := &workv1alpha1.Work{}
				err := r.c.Get(r.ctx, r.key, work)
				switch {
				case apierrors.IsNotFound(err):
				case err != nil || work.DeletionTimestamp != nil:
					t.Errorf("the Work is not gone: %v\n%s", err, last(r.story, 60))
				default:
					r.runs(member, fmt.Sprint("number ", r.says))
				}
			})
		}
	}
}
