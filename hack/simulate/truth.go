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
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
	"github.com/karmada-direct/karmada-direct/hack/simulate/karmada"
)

// sight is what was at a place, or what a Work held, from a step on.
type sight struct {
	step    int
	content string
}

// truth knows what really happened, and checks what the controller does and says
// against it.
type truth struct {
	w       *World
	desired *desire
	// wanted is what should be where, and for whom.
	wanted map[place]map[string]bool
	// contents are the contents that a revision stands for.
	contents map[string]string
	// ran is what members had; an empty content for nothing.
	ran map[place][]sight
	// looked is the version of each member that was looked at last, seen how many of its
	// deletions were checked.
	looked map[string]int64
	seen   map[string]int
	// works are the Works that exist, and ended those that have ended last.
	works, ended map[types.NamespacedName]*holding
	// sent is, by Work, which revision it held.
	sent map[types.NamespacedName][]sight
	// withdrawn is the step at which somebody last stopped wanting something, or wanted it
	// again, renewed that at which a resource was created again.
	withdrawn map[place]int
	renewed   map[karmada.Key]int
	// left is the step at which some object last stopped naming or selecting a member.
	left map[string]int
	// said is, by object, when it last asked to preserve, and when it last did not.
	said map[string]*answers
	// orphans are the objects that ended without the finalizer, and how many processes of
	// the controller had been started then: later ones know nothing of them. It is 0 if
	// none knew of them.
	orphans map[types.UID]int
	// working are the processes that have written something: one that has just begun may
	// not notice that an object is gone.
	working map[string]bool
	// kept are the places where objects may stay that nobody wants anymore.
	kept map[place]bool
	// synchronized is the step since which Karmada synchronizes the Namespace; 0 if it
	// does not.
	synchronized int
	// calm is the step at which the controller last had time to see everything.
	calm int
	// proven are rows whose content was found to be right.
	proven map[string]bool
	// changes are the writes of all, without those that go on forever: to leases, and
	// new attempts of Works that a cluster refuses.
	changes int
	// last is the last of them.
	last string
	// attempts counts, by Work, the new attempts that the controller has asked for since all
	// began to become quiet.
	attempts map[types.NamespacedName]int
	// written counts what else it has written since then, by object, and gone is when a Work
	// has ended.
	written map[string]int
	gone    map[types.NamespacedName]time.Time
	// rows are what rows said last, told which they are, by object.
	rows map[string]*said
	told map[string][]string
	// healthy are the contents with which a Deployment has been healthy.
	healthy map[place]map[string]bool
	// refused is since when a cluster refuses a Work, ready since when Karmada has contact
	// with a cluster, lost since when it has none.
	refused     map[types.NamespacedName]time.Time
	everRefused map[types.UID]bool
	ready, lost map[string]time.Time
	// came is when a resource last changed, acts since when an object has had an account.
	came map[karmada.Key]time.Time
	acts map[string]time.Time
	// quietSince is since when nobody fails or changes anything; the zero time while somebody
	// may. leaving is since when a cluster is being unregistered.
	quietSince time.Time
	leaving    map[string]time.Time
	// releases are about the revisions of rollouts.
	releases *releases
	// violations are what must not happen and did.
	violations []*violation
}

// answers are the steps at which an object last asked to preserve, and last did not.
type answers struct{ preserve, remove int }

func newTruth(w *World) *truth {
	return &truth{
		releases: newReleases(),
		left:     map[string]int{}, written: map[string]int{}, gone: map[types.NamespacedName]time.Time{}, rows: map[string]*said{}, told: map[string][]string{},
		healthy: map[place]map[string]bool{}, refused: map[types.NamespacedName]time.Time{}, everRefused: map[types.UID]bool{}, ready: map[string]time.Time{}, lost: map[string]time.Time{},
		came: map[karmada.Key]time.Time{}, acts: map[string]time.Time{},
		w: w, desired: newDesire(), contents: map[string]string{}, ran: map[place][]sight{}, looked: map[string]int64{}, seen: map[string]int{},
		works: map[types.NamespacedName]*holding{}, ended: map[types.NamespacedName]*holding{}, sent: map[types.NamespacedName][]sight{},
		withdrawn: map[place]int{}, renewed: map[karmada.Key]int{}, said: map[string]*answers{}, orphans: map[types.UID]int{}, working: map[string]bool{}, attempts: map[types.NamespacedName]int{}, leaving: map[string]time.Time{}, kept: map[place]bool{}, proven: map[string]bool{},
	}
}

func (t *truth) violated(invariant, format string, arguments ...any) {
	found := violated(invariant, format, arguments...)
	t.violations = append(t.violations, found)
	t.w.tell("VIOLATION: %s", found.what)
}

func isController(client string) bool { return strings.HasPrefix(client, theController) }

// wrote checks a write to the API server, and learns from it.
func (t *truth) wrote(write apiserver.Write) {
	switch {
	case write.Resource == "leases", write.Resource == "events" && write.Before != nil, t.w.isHampered(write):
	case !isAttempt(write):
		t.changes++
		t.last = fmt.Sprintf("%s %s %s %s/%s %s", write.Client, write.Verb, write.Resource, write.Namespace, write.Name, write.Subresource)
	case isController(write.Client) && write.Before.GetGeneration() != write.After.GetGeneration() && !t.w.isUnregistering(render.ClusterOf(write.Namespace)):
		t.attempts[types.NamespacedName{Namespace: write.Namespace, Name: write.Name}]++
	}
	t.countWrite(write)
	switch write.Resource {
	case "works":
		t.wroteWork(write)
	case "directpropagations":
		t.wrotePropagation(write, &propagationv1alpha1.DirectPropagation{})
	case "clusterdirectpropagations":
		t.wrotePropagation(write, &propagationv1alpha1.ClusterDirectPropagation{})
	case "clusters":
		t.wroteCluster(write)
	case "propagationrevisions":
		t.wroteRevision(write)
	case "overridepolicies":
		t.wrotePolicy(write)
	default:
		t.wroteResource(write)
	}
}

// isAttempt reports whether a write belongs to a new attempt of a Work that its cluster
// refuses: there is one at least every five minutes.
func isAttempt(write apiserver.Write) bool {
	if write.Resource != "works" || write.Before == nil || write.After == nil {
		return false
	}
	for _, object := range []*unstructured.Unstructured{write.Before, write.After} {
		work := into(object, &workv1alpha1.Work{})
		if !meta.IsStatusConditionFalse(work.Status.Conditions, workv1alpha1.WorkApplied) {
			return false
		}
	}
	return true
}

// into converts what was written. The simulation writes nothing that cannot be
// converted.
func into[T any](object *unstructured.Unstructured, typed T) T {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		panic(err)
	}
	return typed
}

// wrotePropagation records which objects each member should have, and checks the status.
func (t *truth) wrotePropagation(write apiserver.Write, object cached.Object) {
	if write.After == nil {
		into(write.Before, object)
		t.checkEnd(write, object)
		if !isController(write.Client) || !slices.Contains(object.GetFinalizers(), propagationv1alpha1.CleanupFinalizer) {
			t.orphans[object.GetUID()] = 0
			if t.working[fmt.Sprintf("%s-%d", theController, t.w.started)] {
				t.orphans[object.GetUID()] = t.w.started
			}
		}
		delete(t.desired.objects, titleOf(object))
		t.want()
		return
	}
	into(write.After, object)
	t.wroteStatus(t.desired.objects[titleOf(object)], object)
	if before := t.desired.objects[titleOf(object)]; before != nil {
		t.says(before)
		for _, target := range t.desired.targets(before) {
			if !slices.ContainsFunc(t.desired.targets(object), func(still propagationv1alpha1.TargetCluster) bool { return still.Name == target.Name }) {
				t.left[target.Name] = t.w.steps
			}
		}
	}
	if write.Before != nil && len(write.Before.GetFinalizers()) > len(write.After.GetFinalizers()) {
		t.checkEnd(write, object)
	}
	t.desired.objects[titleOf(object)] = object
	t.says(object)
	if object.GetSpec().ServiceAccountName == "" {
		delete(t.acts, titleOf(object))
	} else if _, already := t.acts[titleOf(object)]; !already {
		t.acts[titleOf(object)] = time.Now()
	}
	if write.Subresource == "status" {
		t.judge(object)
		return
	}
	t.want()
}

// want finds out what is no longer wanted.
func (t *truth) want() {
	wanted := t.desired.wants()
	for where, owners := range t.wanted {
		for owner := range owners {
			if !wanted[where][owner] {
				t.withdrawn[where] = t.w.steps
			}
		}
	}
	for where, owners := range wanted {
		for owner := range owners {
			if _, ever := t.withdrawn[where]; ever && !t.wanted[where][owner] {
				// A request to withdraw it may still be on its way.
				t.withdrawn[where] = t.w.steps
			}
		}
	}
	t.wanted = wanted
}

// says records whether an object asks to preserve.
func (t *truth) says(object cached.Object) {
	title := titleOf(object)
	if t.said[title] == nil {
		t.said[title] = &answers{preserve: -1, remove: -1}
	}
	if preserves(object) {
		t.said[title].preserve = t.w.steps
	} else {
		t.said[title].remove = t.w.steps
	}
}

func preserves(object cached.Object) bool {
	preserve := object.GetSpec().PreserveResourcesOnDeletion
	return preserve != nil && *preserve
}

// wroteCluster learns which clusters there are. One that leaves takes everything
// along.
func (t *truth) wroteCluster(write apiserver.Write) {
	if write.After == nil || write.After.GetDeletionTimestamp() != nil {
		if _, known := t.desired.clusters[write.Name]; known {
			t.leaving[write.Name] = time.Now()
		}
		t.relabels(write.Name, nil)
		delete(t.desired.clusters, write.Name)
		t.recordReady(write.Name, false)
		for where := range t.wanted {
			if where.member == write.Name {
				t.withdrawn[where] = t.w.steps
			}
		}
	} else {
		t.relabels(write.After.GetName(), write.After.GetLabels())
		cluster := into(write.After, &clusterv1alpha1.Cluster{})
		t.desired.clusters[cluster.Name] = labels.Set(cluster.Labels)
		t.desired.tainted[cluster.Name] = slices.ContainsFunc(cluster.Spec.Taints, isOfUser)
		t.recordReady(cluster.Name, util.IsClusterReady(&cluster.Status))
	}
	t.want()
}

func (t *truth) wrotePolicy(write apiserver.Write) {
	var spec *policyv1alpha1.OverrideSpec
	if write.After != nil {
		spec = &into(write.After, &policyv1alpha1.OverridePolicy{}).Spec
	}
	t.desired.policies[write.Name] = append(t.desired.policies[write.Name], spec)
}

// wroteResource learns what may be sent.
func (t *truth) wroteResource(write apiserver.Write) {
	object := write.After
	if object == nil {
		object = write.Before
	}
	key := karmada.KeyOf(object)
	if key == keyNamed(team, "") {
		t.wroteNamespace(write)
	}
	if !isPropagated(key) || write.Subresource == "status" {
		return
	}
	if write.Before == nil && len(t.desired.resources[key]) > 0 {
		t.renewed[key] = t.w.steps
	}
	t.came[key] = time.Now()
	t.desired.resources[key] = append(t.desired.resources[key], write.After)
	t.want()
}

// look checks the members, and returns an error if something has happened that must not.
func (t *truth) look() error {
	for _, name := range memberNames {
		member := t.w.karmada.Member(name)
		if version := member.Version(); t.looked[name] != version {
			t.looked[name] = version
			t.lookAt(member)
			t.checkDeletions(member)
		}
	}
	if len(t.violations) > 0 {
		return t.violations[0]
	}
	return nil
}

// checkDeletions checks that what left a member was withdrawn.
func (t *truth) checkDeletions(member *karmada.Member) {
	deletions := member.Deletions()
	for _, deletion := range deletions[t.seen[member.Name]:] {
		if deletion.Cause != karmada.Withdrawn {
			continue
		}
		if by := t.endOf(deletion.Work); by == nil || !by.leaving {
			t.violated("something is lost", "%s was deleted on %s, because of Work %s, although nobody withdrew it", deletion.Key, member.Name, deletion.Work)
		}
	}
	t.seen[member.Name] = len(deletions)
}

// endOf is a Work that is being deleted, or has been.
func (t *truth) endOf(key types.NamespacedName) *holding {
	if held := t.works[key]; held != nil && held.work.DeletionTimestamp != nil {
		return held
	}
	return t.ended[key]
}

// lookAt records what a member has.
func (t *truth) lookAt(member *karmada.Member) {
	there := map[place]bool{}
	for _, key := range member.Keys() {
		where := place{member: member.Name, key: key}
		there[where] = true
		running, _ := member.Runs(key.GroupVersionKind, key.Namespace, key.Name)
		t.recordHealth(where, running.Object, running.Content)
		t.record(where, running.Content)
	}
	for where := range t.ran {
		if where.member == member.Name && !there[where] {
			t.record(where, "")
		}
	}
}

func (t *truth) record(where place, content string) {
	ran := t.ran[where]
	if len(ran) > 0 && ran[len(ran)-1].content == content {
		return
	}
	t.ran[where] = append(ran, sight{step: t.w.steps, content: content})
	held := t.works[render.WorkKey(where.member, where.key.Kind, where.key.Namespace, where.key.Name)]
	if returned := len(ran) > 0 && ran[len(ran)-1].content == "" && content != ""; returned && (held == nil || held.work.DeletionTimestamp != nil) {
		// Karmada has re-created what somebody had deleted there, although its Work goes.
		t.kept[where] = true
	}
	if len(ran) == 0 && held != nil && held.late {
		// Karmada has brought what it has not seen going, and may not see that it is there.
		t.kept[where] = true
	}
}

// manifestOf is what a Work holds; nil if that cannot be read.
func manifestOf(work *workv1alpha1.Work) *unstructured.Unstructured {
	if len(work.Spec.Workload.Manifests) != 1 {
		return nil
	}
	manifest := &unstructured.Unstructured{}
	if err := manifest.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		return nil
	}
	return manifest
}

func nameOf(object client.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// isPropagated reports whether users propagate an object.
func isPropagated(key karmada.Key) bool {
	switch key.Kind {
	case "ConfigMap", "Deployment", "Widget":
		return key.Namespace == namespace
	case "ClusterRole":
		return true
	case team.Kind:
		return key.Name == team.Name
	}
	return false
}

func (s sight) String() string { return fmt.Sprintf("%s from step %d", s.content, s.step) }
