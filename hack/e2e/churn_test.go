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
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// 100 DirectPropagations are created and deleted in quick succession, most of them
// before they have taken effect. Nothing is left of them, and nothing is stuck.
func TestPropagationsComeAndGoInAHurry(t *testing.T) {
	t.Parallel()
	const lanes, cycles = 10, 10
	ns := newNamespace(t)
	pauses := bed.Seeded(t)
	seeds := make([]uint64, lanes)
	for lane := range seeds {
		ns.Has(testbed.ConfigMap(fmt.Sprintf("settings-%d", lane), "for a moment"))
		ns.NoteWork(testbed.Reference("v1", "ConfigMap", fmt.Sprintf("settings-%d", lane)))
		seeds[lane] = pauses.Uint64()
	}
	err := testbed.InParallel(lanes, func(lane int) error {
		numbers := rand.New(rand.NewPCG(seeds[lane], 0))
		name := fmt.Sprintf("settings-%d", lane)
		for cycle := range cycles {
			object := testbed.NewDirectPropagation(ns.Name, name, testbed.Reference("v1", "ConfigMap", name), "member1", "member2")
			if err := comesAndGoes(ns.Ctx, object, numbers); err != nil {
				return fmt.Errorf("lane %d, cycle %d: %w", lane, cycle, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, ns.Dump())
	}
	ns.Eventually("nothing is left", ns.IsClean)
	ns.Throughout(5*time.Second, "nothing comes back", ns.IsClean)
}

// A resource is deleted and recreated 100 times in quick succession, usually before
// the previous one has arrived. In the end, members have the last one, and the
// DirectPropagations are Ready.
func TestResourcesComeAndGoInAHurry(t *testing.T) {
	t.Parallel()
	const lanes, cycles = 10, 10
	ns := newNamespace(t)
	pauses := bed.Seeded(t)
	seeds := make([]uint64, lanes)
	propagations := make([]*Propagation, lanes)
	for lane := range seeds {
		name := fmt.Sprintf("settings-%d", lane)
		propagations[lane] = ns.Propagates(name, testbed.ConfigMap(name, "")).To(member1, member2)
		seeds[lane] = pauses.Uint64()
	}
	err := testbed.InParallel(lanes, func(lane int) error {
		numbers := rand.New(rand.NewPCG(seeds[lane], 0))
		for cycle := range cycles {
			settings := testbed.ConfigMap(fmt.Sprintf("settings-%d", lane), fmt.Sprintf("cycle %d", cycle))
			settings.Namespace = ns.Name
			if err := comesAndGoes(ns.Ctx, settings, numbers); err != nil {
				return fmt.Errorf("lane %d, cycle %d: %w", lane, cycle, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, ns.Dump())
	}
	for _, p := range propagations {
		ns.Has(testbed.ConfigMap(p.Name, "here to stay"))
	}
	for _, p := range propagations {
		p.BecomesReady()
	}
}

// comesAndGoes creates an object, deletes it after a random delay, and waits until
// it is gone.
func comesAndGoes(ctx context.Context, object client.Object, numbers *rand.Rand) error {
	if err := karmada.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %s: %w", testbed.Describe(object), err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(moment(numbers)):
	}
	if err := karmada.Delete(ctx, object); err != nil {
		return fmt.Errorf("deleting %s: %w", testbed.Describe(object), err)
	}
	return bed.Await(ctx, testbed.Describe(object)+" is gone", func(ctx context.Context) error {
		left, _ := object.DeepCopyObject().(client.Object)
		if err := karmada.Get(ctx, client.ObjectKeyFromObject(object), left); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it still exists"), err)
		}
		return nil
	})
}

// moment returns a random delay that is usually too short for the operation to
// finish, and sometimes zero.
func moment(numbers *rand.Rand) time.Duration {
	const longest = 1500
	milliseconds := numbers.IntN(longest) - longest/5
	return time.Duration(max(0, milliseconds)) * time.Millisecond
}
