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
	"math"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// truth records what members have, and compares it with what rows said.
//
// All control planes of a fleet share one etcd, so the resource versions of all of
// them are in one order. What a row claims is therefore compared with what happened
// before it was written, without any clock.
type truth struct {
	ns      *Namespace
	began   time.Time
	members map[*Member]*testbed.Recorder
}

// newTruth begins to record what the members have.
func newTruth(t *testing.T, ns *Namespace) *truth {
	t.Helper()
	f := &truth{ns: ns, began: time.Now(), members: map[*Member]*testbed.Recorder{}}
	for _, m := range members {
		connected, err := bed.Connect(m.Name)
		if err != nil {
			t.Fatal(err)
		}
		if f.members[m], err = bed.RecordOn(t.Context(), connected, &corev1.ConfigMapList{}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// span is the time during which a member had one content, in resource versions.
type span struct {
	from, to uint64
	// revision is anything if the recorder may have missed states.
	revision string
}

const anything = "anything"

// holds fails the test if a row of an object was ever True for a revision that the
// member had not had by then. It returns the number of rows that it compared.
func (f *truth) holds(t *testing.T, lane testbed.Lane) (claims int) {
	t.Helper()
	had := map[*Member][]span{}
	for m := range f.members {
		had[m] = f.spans(t, m, lane)
	}
	created := map[string]uint64{}
	for _, seen := range bed.Propagations.Of(f.ns.Key(lane.Name), f.began) {
		object, _ := seen.Object.(*DirectPropagation)
		if created[string(object.UID)] == 0 {
			created[string(object.UID)] = versionOf(t, object)
		}
		for _, m := range members {
			row := testbed.RowOf(object, m.Name)
			if row.Applied != metav1.ConditionTrue {
				continue
			}
			claims++
			if err := isTrue(row, had[m], created[string(object.UID)], versionOf(t, object)); err != nil {
				t.Errorf("%s at resourceVersion %s: %v", lane.Name, object.ResourceVersion, err)
			}
		}
	}
	return claims
}

// isTrue returns an error unless a member has had a revision at a time after the object
// was created and before its row said so.
func isTrue(row propagationv1alpha1.ClusterStatus, had []span, created, said uint64) error {
	for _, one := range had {
		if (one.revision == row.Revision || one.revision == anything) && one.from < said && one.to > created {
			return nil
		}
	}
	return fmt.Errorf("the row of %s was True for revision %s, but the member had (resource versions, revision): %v", row.Name, row.Revision, had)
}

// spans lists what a member has had. The revision of a content is that of the resource
// on the control plane if it had this content.
func (f *truth) spans(t *testing.T, m *Member, lane testbed.Lane) []span {
	t.Helper()
	had := []span{}
	resource, err := f.ns.ResourceOf(f.ns.Ctx, testbed.NewDirectPropagation(f.ns.Name, lane.Name, testbed.Reference("v1", "ConfigMap", lane.Name)))
	if err != nil {
		t.Fatal(err)
	}
	for _, seen := range f.members[m].Of(f.ns.Key(lane.Name), f.began) {
		settings, _ := seen.Object.(*corev1.ConfigMap)
		at := versionOf(t, settings)
		missed := span{to: at, revision: anything}
		if len(had) > 0 {
			last := &had[len(had)-1]
			missed.from = last.from
			if last.to == math.MaxUint64 && at > last.from {
				last.to = at
			}
		}
		if seen.Listed && seen.Gone {
			missed.to = math.MaxUint64 // a list does not tell when it was deleted
		}
		if seen.Listed {
			had = append(had, missed)
		}
		if seen.Gone {
			continue
		}
		data := map[string]any{}
		for key, value := range settings.Data {
			data[key] = value
		}
		resource.Object["data"] = data
		revision, err := testbed.RevisionOf(propagationv1alpha1.ConflictAbort, resource)
		if err != nil {
			t.Fatal(err)
		}
		had = append(had, span{from: at, to: math.MaxUint64, revision: revision})
	}
	return had
}

func versionOf(t *testing.T, object client.Object) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// catchesUp waits until the recorders have the current state of each member.
func (f *truth) catchesUp(lane testbed.Lane) {
	f.ns.T.Helper()
	for m, recorder := range f.members {
		f.ns.Eventually("the recorder of "+m.Name+" catches up", func(ctx context.Context) error {
			current, err := m.Find(ctx, f.ns.configMap(lane.Name))
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			latest := recorder.Latest(f.ns.Key(lane.Name))
			if err == nil && (latest == nil || latest.GetResourceVersion() != current.GetResourceVersion()) {
				return errors.New("it lags")
			}
			return nil
		})
	}
}
