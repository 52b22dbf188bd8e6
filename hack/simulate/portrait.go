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

package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// portrait is a world in which nothing happens anymore, without what depends on how it
// came about: times, UIDs, versions, generations, messages, and records on Works of what
// was confirmed and attempted.
type portrait struct {
	// facts are rows, Works and objects on members, by what they are about.
	facts map[string]string
	// watches are the open watches of the controller, and goroutines how many it has.
	watches    map[string]int
	goroutines map[string]int
	// followed: something is still propagated because it followed a resource that cannot be
	// read anymore, or because its deletion cannot finish. It needs watches, too.
	followed bool
}

// paint returns the portrait of a world.
func (w *World) paint() *portrait {
	p := &portrait{facts: map[string]string{}, watches: map[string]int{}, goroutines: map[string]int{}}
	for _, replica := range w.replicas {
		for function, count := range goroutinesOf(replica.name) {
			p.goroutines[function] += count
		}
	}
	for _, stream := range w.server.Streams() {
		if w.isAlive(stream.Client) {
			what, _, _ := strings.Cut(strings.TrimPrefix(stream.String(), stream.Client), "resourceVersion")
			what, _, _ = strings.Cut(what, " ?")
			p.watches[strings.TrimSpace(what)]++
		}
	}
	for _, title := range sortedNames(w.truth.desired.objects) {
		object := w.truth.desired.objects[title]
		w.paintObject(p, title, object)
		p.followed = p.followed || object.GetDeletionTimestamp() != nil || w.isMoody(object) && ptr.Deref(object.GetSpec().PropagateDeps, false)
	}
	return p
}

// paintObject adds what an object says, and what it has led to, if both depend on
// nothing but what is desired.
func (w *World) paintObject(p *portrait, title string, object cached.Object) {
	if object.GetDeletionTimestamp() != nil || w.isMoody(object) {
		return
	}
	key := keyOfResource(object)
	for _, row := range object.GetStatus().Clusters {
		about := title + " on " + row.Name
		if w.isMoodyOn(object, row.Name) {
			continue
		}
		p.facts[about] = fmt.Sprint(row.Applied, " ", row.Health, " ", row.Reason)
		if held := w.truth.works[render.WorkKey(row.Name, key.Kind, key.Namespace, key.Name)]; held != nil {
			p.facts["Work of "+about] = describe(held.work)
		}
		if row.Applied == metav1.ConditionTrue {
			running, _ := w.karmada.Member(row.Name).Runs(key.GroupVersionKind, key.Namespace, key.Name)
			p.facts["object of "+about] = running.Content
		}
	}
}

// isMoody reports whether what an object has led to depends on what was before: what
// cannot be rendered or is not permitted stays as it was.
func (w *World) isMoody(object cached.Object) bool {
	spec := object.GetSpec()
	account := spec.ServiceAccountName != "" && (!w.users.grants[""] || !w.users.mayPropagate(""))
	return account || isOpen(object) || w.meetsTaints(object) || w.wrongAsAWhole(object, w.truth.desired.latest(keyOfResource(object))) != ""
}

// isMoodyOn reports the same of one cluster: one that is suspended keeps what it has, as
// does one for which nothing can be rendered or that no longer serves the kind, whoever
// came first holds a Work, what Karmada does not clean up stays, and what it does not miss
// does not come back.
func (w *World) isMoodyOn(object cached.Object, cluster string) bool {
	key := keyOfResource(object)
	where := place{member: cluster, key: key}
	held := w.truth.works[render.WorkKey(cluster, key.Kind, key.Namespace, key.Name)]
	foreign := held != nil && (!isOurs(held.work) || ownerOf(held.work) != titleOf(object))
	hampered := w.users.hampers(cluster) || w.users.denied[cluster] || w.isUnchangeable(key)
	return !isRenderable(w.truth.targetOf(object, cluster), key) || foreign || hampered || w.isShared(where) || w.truth.desired.clusters[cluster] == nil ||
		isSuspended(object.GetSpec(), cluster) || !w.isSound(cluster) || w.isLost(cluster, object) ||
		(held == nil) == w.karmada.Member(cluster).Serves(key.GroupVersionKind)
}

// isUnchangeable reports whether members that have the object of an earlier resource with the
// same name keep it, because it can neither be changed nor deleted.
func (w *World) isUnchangeable(key karmada.Key) bool {
	resource := w.truth.desired.latest(key)
	return resource != nil && holdsData(key) && isFrozen(resource)
}

// isShared reports whether not exactly one owner wants the Work for a place, or a policy has
// claimed the resource.
func (w *World) isShared(where place) bool {
	return isClaimed(w.truth.desired.latest(where.key)) || len(w.truth.wanted[where]) != 1 || w.hasTwin(where)
}

// hasTwin reports whether somebody wants the resource there whose Work has the same name.
func (w *World) hasTwin(where place) bool {
	for _, kind := range []karmada.Kind{widgetKind, toyKind} {
		twin := where
		twin.key.GroupVersionKind = kind.GroupVersionKind
		if where.key.Kind == kind.Kind && twin.key != where.key && len(w.truth.wanted[twin]) > 0 {
			return true
		}
	}
	return false
}

// isSound reports whether a cluster is as a new one: Ready, and with the namespace.
func (w *World) isSound(name string) bool {
	cluster := &clusterv1alpha1.Cluster{}
	if err := w.plane.Get(context.Background(), client.ObjectKey{Name: name}, cluster); err != nil {
		return false
	}
	_, hasNamespace := w.karmada.Member(name).Runs(schemaNamespace, "", namespace)
	return util.IsClusterReady(&cluster.Status) && cluster.DeletionTimestamp == nil && hasNamespace
}

// describe returns a Work without what depends on how it came about.
func describe(work *workv1alpha1.Work) string {
	manifest := manifestOf(work)
	marks := map[string]string{}
	for _, name := range []string{
		propagationv1alpha1.OwnerKindAnnotation, propagationv1alpha1.OwnerNamespaceAnnotation, propagationv1alpha1.OwnerNameAnnotation,
		util.AppliedOverrides, util.AppliedClusterOverrides,
	} {
		marks[name] = work.Annotations[name]
	}
	raw, err := json.Marshal([]any{
		marks, slices.Sorted(maps.Keys(work.Labels)), slices.Sorted(maps.Keys(manifest.GetLabels())), slices.Sorted(maps.Keys(manifest.GetAnnotations())),
		karmada.ContentHash(manifest), ptr.Deref(work.Spec.SuspendDispatching, false), ptr.Deref(work.Spec.PreserveResourcesOnDeletion, false), slices.Contains(work.Finalizers, util.ExecutionControllerFinalizer),
	})
	if err != nil {
		panic(err) // strings can be marshaled
	}
	return string(raw)
}

// passing are what goroutines do that are not there all the time: those that record
// Events begin with the first, and others belong to requests for the lease.
var passing = []string{
	"client-go/tools/events", "client-go/tools/record", "watch.(*Broadcaster)", "wait.UntilWithContext", "setRequestCancel", "tools/leaderelection",
}

// goroutinesOf counts the goroutines of a replica, by the function that they began with.
func goroutinesOf(replica string) map[string]int {
	profile := &bytes.Buffer{}
	if err := pprof.Lookup("goroutine").WriteTo(profile, 1); err != nil {
		panic(err) // nothing is lost when writing to memory
	}
	found := map[string]int{}
	for group := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(group, "labels:") || !strings.Contains(group, strconv.Quote(replica)) {
			continue
		}
		if slices.ContainsFunc(passing, func(name string) bool { return strings.Contains(group, name) }) {
			continue
		}
		count, frames := 0, strings.Split(strings.TrimSpace(group), "\n")
		for _, frame := range frames {
			if number, _, is := strings.Cut(frame, " @"); is {
				count, _ = strconv.Atoi(strings.TrimSpace(number))
			}
		}
		function := strings.Fields(frames[len(frames)-1])
		name, _, _ := strings.Cut(function[2], "+0x")
		found[name] += count
	}
	return found
}

// more returns what there is more of in one count than in another.
func more(counts, than map[string]int) []string {
	found := []string{}
	for _, name := range sortedNames(counts) {
		if counts[name] > than[name] {
			found = append(found, fmt.Sprintf("%s: %d, not %d", name, counts[name], than[name]))
		}
	}
	return found
}

// compare returns how a portrait differs from that of a world in which the same was
// desired from the beginning.
func (p *portrait) compare(fresh *portrait) *violation {
	for _, about := range sortedNames(p.facts) {
		if had, painted := fresh.facts[about]; painted && had != p.facts[about] {
			return violated("not as after a fresh apply", "%s is %s, but after a fresh apply %s", about, p.facts[about], had)
		}
	}
	if p.followed {
		return nil
	}
	if leaked := more(p.watches, fresh.watches); len(leaked) > 0 {
		return violated("watches leak", "there are more watches than after a fresh apply: %q", leaked)
	}
	if missing := more(fresh.watches, p.watches); len(missing) > 0 {
		return violated("watches are missing", "there are fewer watches than after a fresh apply: %q", missing)
	}
	if leaked := more(p.goroutines, fresh.goroutines); len(leaked) > 0 {
		return violated("goroutines leak", "there are more goroutines than after a fresh apply: %q", leaked)
	}
	return nil
}

// sketch is what is desired in a world, and what is on the members that Karmada does not
// manage.
type sketch struct {
	// setup is what was chosen before the first step.
	setup   []int
	desired *desire
	grants  map[string]bool
	// defined: the control plane serves Widgets.
	defined bool
	plural  string
	scope   apiextensionsv1.ResourceScope
	// served are the members that serve Widgets.
	served  map[string]bool
	strange map[string][]*unstructured.Unstructured
}

// sketch returns what is desired now.
func (w *World) sketch() *sketch {
	s := &sketch{setup: w.choices.made[0], desired: w.truth.desired, grants: w.users.grants, served: map[string]bool{}, strange: map[string][]*unstructured.Unstructured{}}
	s.plural, s.scope = w.users.plural, w.users.scope
	definition := w.users.widgetDefinition()
	s.defined = w.plane.Get(context.Background(), client.ObjectKeyFromObject(definition), definition) == nil
	for _, name := range memberNames {
		member := w.karmada.Member(name)
		s.served[name] = member.Serves(widgetKind.GroupVersionKind)
		for _, key := range member.Keys() {
			if running, _ := member.Runs(key.GroupVersionKind, key.Namespace, key.Name); isPropagated(key) && !isManaged(running.Object) {
				s.strange[name] = append(s.strange[name], running.Object)
			}
		}
	}
	return s
}

// bare returns an object as users write it.
func bare[T client.Object](object T) T {
	object, _ = object.DeepCopyObject().(T)
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetFinalizers(nil)
	object.SetGeneration(0)
	object.SetCreationTimestamp(metav1.Time{})
	return object
}
