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

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// arrival is when the members had what a user wrote, and when the user knew that: seconds
// from the write.
type arrival struct {
	P50      float64 `json:"membersP50Seconds"`
	P99      float64 `json:"membersP99Seconds"`
	KnownP50 float64 `json:"userP50Seconds,omitempty"`
	KnownP99 float64 `json:"userP99Seconds,omitempty"`
	// Early is the number of objects whose status said that everything is applied
	// although a member did not have it.
	Early int `json:"early"`
}

// arrivals watches the objects of a load on its members, and the ResourceBindings.
type arrivals struct {
	*ground
	load *load

	mu sync.Mutex
	// at is when a member first had a revision of an object.
	at map[place]time.Time
	// said is what the ResourceBinding of an object said, in order.
	said map[string][]verdict
	// members are clients of the members.
	members map[string]client.WithWatch
}

// margin is by how much a status must be ahead of a member to count as early: the two are
// seen by different watches.
const margin = 100 * time.Millisecond

type place struct{ cluster, object, revision string }

// verdict is whether a ResourceBinding says that everything is applied, from a time on.
type verdict struct {
	at      time.Time
	applied bool
}

// watchArrivals begins to measure when the members have a load.
func (g *ground) watchArrivals(ctx context.Context, l *load) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	a := &arrivals{ground: g, load: l, at: map[place]time.Time{}, said: map[string][]verdict{}, members: map[string]client.WithWatch{}}
	stop = func() {
		cancel()
		g.arrivals = nil
	}
	selector := loadLabel + "=" + l.name
	informers := []cache.SharedIndexInformer{
		informerOf(ctx, g.client, &workv1alpha2.ResourceBindingList{}, &workv1alpha2.ResourceBinding{}, l.namespace, "", a.seeBinding),
		informerOf(ctx, g.client, l.emptyList(), l.empty("", ""), l.namespace, selector, a.seeTemplate),
	}
	for _, cluster := range l.clusters {
		if a.members[cluster], err = g.member(cluster); err != nil {
			stop()
			return nil, err
		}
		informers = append(informers, informerOf(ctx, a.members[cluster], l.emptyList(), l.empty("", ""), l.namespace, selector, func(object any) { a.see(cluster, object) }))
	}
	for _, informer := range informers {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			stop()
			return nil, errors.New("watching the members: interrupted")
		}
	}
	g.arrivals = a
	return stop, nil
}

// member returns a client of a member.
func (g *ground) member(name string) (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", g.fleet.Kubeconfig(name))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	config.QPS = -1
	member, err := client.NewWithWatch(config, client.Options{Scheme: testbed.Scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	return member, nil
}

// informerOf runs an informer that calls a function with each new state of an object.
func informerOf(ctx context.Context, c client.WithWatch, list client.ObjectList, object client.Object, namespace, selector string, see func(any)) cache.SharedIndexInformer {
	raw := func(options metav1.ListOptions) *client.ListOptions {
		options.LabelSelector = selector
		return &client.ListOptions{Namespace: namespace, Raw: &options}
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, _ := list.DeepCopyObject().(client.ObjectList)
			return found, c.List(ctx, found, raw(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list, raw(options))
		},
	}, object, 0, cache.Indexers{})
	// It fails only for an informer that has ended.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, object any) { see(object) }})
	go informer.RunWithContext(ctx)
	return informer
}

func (a *arrivals) see(cluster string, object any) {
	now := time.Now()
	seen, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	where := place{cluster, seen.GetName(), a.load.revisionOf(seen)}
	if a.at[where].IsZero() {
		a.at[where] = now
	}
}

// inTemplate is the place of a resource in the control plane.
const inTemplate = "the resource's status"

// seeTemplate records when the status of a resource is about its current revision. Karmada
// sets observedGeneration when the reports of all members are about it.
func (a *arrivals) seeTemplate(object any) {
	seen, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	observed, found, _ := unstructured.NestedInt64(seen.Object, "status", "observedGeneration")
	if found && observed == seen.GetGeneration() {
		a.see(inTemplate, seen)
	}
}

func (a *arrivals) seeBinding(object any) {
	now := time.Now()
	binding, ok := object.(*workv1alpha2.ResourceBinding)
	if !ok {
		return
	}
	applied := meta.IsStatusConditionTrue(binding.Status.Conditions, workv1alpha2.FullyApplied)
	a.mu.Lock()
	defer a.mu.Unlock()
	name := binding.Spec.Resource.Name
	a.said[name] = append(a.said[name], verdict{now, applied})
}

// saidApplied reports whether the ResourceBinding of an object said at a time that
// everything is applied.
func (a *arrivals) saidApplied(name string, at time.Time) (applied bool) {
	for _, said := range a.said[name] {
		if said.at.After(at) {
			break
		}
		applied = said.applied
	}
	return applied
}

// result is what was measured in a phase whose writes were sent at these times.
func (a *arrivals) result(ctx context.Context, s *sample, sent []time.Time) (*arrival, error) {
	if s.Phase == phaseDelete {
		return nil, nil //nolint:nilnil // nothing arrives
	}
	revision := map[phase]int{phaseCreate: 1, phaseUpdate: 2}[s.Phase]
	if err := until(ctx, "the members have everything", func(context.Context) (bool, error) {
		return len(a.arrived(revision)) == len(sent), nil
	}); err != nil {
		return nil, err
	}
	took, knew, result := []float64{}, []float64{}, &arrival{}
	for i, at := range a.arrived(revision) {
		took = append(took, at.Sub(sent[i]).Seconds())
		known, early, err := a.known(ctx, s, i, revision, at.Add(-margin))
		if err != nil {
			return nil, err
		}
		if early {
			result.Early++
		}
		if !known.IsZero() {
			knew = append(knew, known.Sub(sent[i]).Seconds())
		}
	}
	result.P50, result.P99 = quantile(took, 0.5), quantile(took, 0.99)
	if len(knew) == len(sent) {
		result.KnownP50, result.KnownP99 = quantile(knew, 0.5), quantile(knew, 0.99)
	}
	return result, nil
}

// known is when the user knew that all members have a revision of an object, the zero time
// if the user cannot know, and whether a status said so already at a time.
func (a *arrivals) known(ctx context.Context, s *sample, i, revision int, tooEarly time.Time) (known time.Time, early bool, err error) {
	name := a.load.object(i)
	if s.Contender == namePolicy {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.at[place{inTemplate, name, strconv.Itoa(revision)}], a.saidApplied(name, tooEarly), nil
	}
	manifest, err := a.load.manifest(ctx, a.client, i)
	if err != nil {
		return time.Time{}, false, err
	}
	state := a.watcher.object(types.NamespacedName{Namespace: a.load.namespace, Name: name})
	if known = state.known[manifest.Revision]; known.IsZero() {
		return time.Time{}, false, fmt.Errorf("the status of %s never said that all clusters have revision %s", name, manifest.Revision)
	}
	return known, known.Before(tooEarly), nil
}

// left waits until the members have nothing of the load anymore, so that the next one does
// not run beside its removal.
func (a *arrivals) left(ctx context.Context) error {
	return until(ctx, "the members have removed everything", func(ctx context.Context) (bool, error) {
		for _, member := range a.members {
			for _, list := range []client.ObjectList{a.load.emptyList(), &corev1.PodList{}} {
				if err := member.List(ctx, list, client.InNamespace(a.load.namespace)); err != nil {
					return false, fmt.Errorf("listing what members have: %w", err)
				}
				if count, err := ofLoad(list, a.load.name); err != nil || count > 0 {
					return false, err
				}
			}
		}
		return true, nil
	})
}

// ofLoad counts the objects of a list that belong to a load.
func ofLoad(list client.ObjectList, load string) (count int, err error) {
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok && strings.HasPrefix(object.GetName(), load+"-") {
			count++
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("reading a list: %w", err)
	}
	return count, nil
}

// arrived is when the last member had a revision of each object; without those that are not
// everywhere.
func (a *arrivals) arrived(revision int) []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []time.Time{}
	for i := range a.load.objects {
		last := time.Time{}
		for _, cluster := range a.load.clusters {
			at := a.at[place{cluster, a.load.object(i), strconv.Itoa(revision)}]
			if at.IsZero() {
				return all
			}
			if at.After(last) {
				last = at
			}
		}
		all = append(all, last)
	}
	return all
}

// compareArrivals compares how fast the members have something, and how fast its user knows.
func (b *bench) compareArrivals(r *race) {
	if r.name == warmUp {
		return
	}
	ofMembers := func(s *sample) float64 { return s.Arrival.P99 }
	what := func(says string) string { return fmt.Sprintf("%s, %s", r.name, says) }
	for _, p := range r.phases {
		b.results.figure(r.label, what(fmt.Sprintf("%s: until the members have it, p99, %s : %s", p, nameDirect, namePolicy)),
			b.results.ratioOf(r.name, p, nameDirect, namePolicy, ofMembers), "")
		known, _, _, _ := b.results.median(r.name, nameDirect, p, func(s *sample) float64 { return s.Arrival.KnownP99 / s.Arrival.P99 })
		b.results.figure(r.label, what(fmt.Sprintf("%s: until the user knows, p99, : until the members have it, %s", p, nameDirect)), known, "")
	}
	b.results.figure(r.label, what(fmt.Sprintf("update: Works a second, %s : %s", nameDirect, namePolicy)),
		b.results.ratioOf(r.name, phaseUpdate, nameDirect, namePolicy, (*sample).perSecond), "")
	perWork := func(s *sample) float64 {
		return s.Writes.sum(func(string) bool { return true }) / float64(s.Objects*s.Clusters)
	}
	b.results.figure(r.label, what(fmt.Sprintf("update: writes per Work, %s : %s", nameDirect, namePolicy)),
		b.results.ratioOf(r.name, phaseUpdate, nameDirect, namePolicy, perWork), "")
}
