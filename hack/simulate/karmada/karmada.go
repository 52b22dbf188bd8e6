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
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"
)

// Options are what a simulated Karmada may be told.
type Options struct {
	// Now is the clock of the control plane. It is required.
	Now func() time.Time
	// Revision, if set, returns a number that changes with every write to a resource of
	// the API server such as "works", and, for no resource, with every write. It saves the
	// lists that Actions makes otherwise to see what has changed.
	Revision func(resource string) int64
	// Known, if set, returns an error for a kind that the control plane does not serve,
	// as its RESTMapper does.
	Known func(schema.GroupVersionKind) error
	// Finalize lets a namespace of the control plane go that is terminating and empty.
	// By default, it updates the subresource "finalize".
	Finalize func(context.Context, client.Client, *corev1.Namespace) error
	// NamespacedKinds are the kinds, besides Works, of which a namespace of the control
	// plane is emptied when it is deleted.
	NamespacedKinds []schema.GroupVersionKind
	// Workers is how many keys each controller handles at once, by default 5.
	Workers int
}

func (o *Options) workers() int { return cmp.Or(o.Workers, 5) }

func (o *Options) finalize(ctx context.Context, c client.Client, namespace *corev1.Namespace) error {
	if o.Finalize != nil {
		return o.Finalize(ctx, c, namespace)
	}
	namespace.Spec.Finalizers = nil
	return c.SubResource("finalize").Update(ctx, namespace)
}

// Karmada is a simulated Karmada with its member clusters. It does nothing by itself: a
// scheduler asks for the actions that are possible, and takes one of them. It is not safe
// for concurrent use.
type Karmada struct {
	client      client.Client
	options     Options
	interpreter *native.DefaultInterpreter

	works      *journal[*workv1alpha1.Work]
	clusters   *journal[*clusterv1alpha1.Cluster]
	namespaces *journal[*corev1.Namespace]
	bindings   *journal[client.Object]
	templates  *journal[client.Object]
	begun      bool

	members map[string]*Member
	// manager is karmada-controller-manager; agents are by member. They are nil while
	// they do not run; halted says which of them are not to run, "" being the manager.
	manager   *process
	agents    map[string]*process
	halted    map[string]bool
	collector *collector
	commands  *commands

	// renewed is when the lease of each pull cluster was renewed last.
	renewed map[string]time.Time
}

// New returns a Karmada on an API server. Its processes start with the first call of
// Actions.
func New(c client.Client, options Options) *Karmada {
	k := &Karmada{
		client: c, options: options, interpreter: native.NewDefaultInterpreter(),
		members: map[string]*Member{}, agents: map[string]*process{}, halted: map[string]bool{},
		renewed: map[string]time.Time{},
	}
	k.works = newJournal(listOf(c, &workv1alpha1.WorkList{}, func(l *workv1alpha1.WorkList) []workv1alpha1.Work { return l.Items }), "works")
	k.clusters = newJournal(listOf(c, &clusterv1alpha1.ClusterList{}, func(l *clusterv1alpha1.ClusterList) []clusterv1alpha1.Cluster { return l.Items }), "clusters")
	k.namespaces = newJournal(listOf(c, &corev1.NamespaceList{}, func(l *corev1.NamespaceList) []corev1.Namespace { return l.Items }), "namespaces")
	k.bindings = newJournal(k.listBindings, "resourcebindings", "clusterresourcebindings")
	k.templates = newJournal(k.listTemplates, "")
	k.templates.key = func(template client.Object) types.NamespacedName {
		apiVersion, kind := template.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		return templateKey(workv1alpha2.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: template.GetNamespace(), Name: template.GetName()})
	}
	k.commands = newCommands(k)
	return k
}

// listOf lists all objects of a kind.
func listOf[T any, L client.ObjectList, P object[T]](c client.Client, empty L, items func(L) []T) func(context.Context) ([]P, error) {
	return func(ctx context.Context) ([]P, error) {
		list, _ := empty.DeepCopyObject().(L)
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
		var objects []P
		for _, item := range items(list) {
			objects = append(objects, P(&item))
		}
		return objects, nil
	}
}

func (k *Karmada) listBindings(ctx context.Context) ([]client.Object, error) {
	var objects []client.Object
	namespaced, clusterWide := &workv1alpha2.ResourceBindingList{}, &workv1alpha2.ClusterResourceBindingList{}
	if err := k.client.List(ctx, namespaced); err != nil {
		return nil, err
	}
	if err := k.client.List(ctx, clusterWide); err != nil {
		return nil, err
	}
	for i := range namespaced.Items {
		objects = append(objects, &namespaced.Items[i])
	}
	for i := range clusterWide.Items {
		objects = append(objects, &clusterWide.Items[i])
	}
	return objects, nil
}

// listTemplates reads the templates that bindings name.
func (k *Karmada) listTemplates(ctx context.Context) ([]client.Object, error) {
	found := map[types.NamespacedName]client.Object{}
	for _, binding := range k.bindings.now {
		reference := specOf(binding).Resource
		template := &unstructured.Unstructured{}
		template.SetAPIVersion(reference.APIVersion)
		template.SetKind(reference.Kind)
		err := k.client.Get(ctx, types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}, template)
		switch {
		case err == nil:
			found[templateKey(reference)] = template
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
			return nil, err
		}
	}
	var templates []client.Object
	for _, key := range sortedKeys(found) {
		templates = append(templates, found[key])
	}
	return templates, nil
}

// AddMember adds a member cluster that Karmada does not know yet, with its agent if it is
// a pull member: see NewCluster.
func (k *Karmada) AddMember(name string, mode clusterv1alpha1.ClusterSyncMode) *Member {
	member := newMember(name, k.now)
	k.members[name] = member
	if mode == clusterv1alpha1.Pull {
		k.agents[name] = nil
	}
	return member
}

// Member returns a member cluster; nil if there is none of the name.
func (k *Karmada) Member(name string) *Member { return k.members[name] }

func (k *Karmada) now() time.Time { return k.options.Now() }

// update brings the journals up to date.
func (k *Karmada) update(ctx context.Context) error {
	revision := k.options.Revision
	for _, update := range []func(context.Context, func(string) int64) error{
		k.works.update, k.clusters.update, k.namespaces.update, k.bindings.update, k.templates.update,
	} {
		if err := update(ctx, revision); err != nil {
			return fmt.Errorf("listing what is on the control plane: %w", err)
		}
	}
	if !k.begun {
		k.begun = true
		k.collector = k.newCollector()
	}
	return nil
}

// startProcesses starts what is to run and does not. An agent cannot start while its
// member is cut off.
func (k *Karmada) startProcesses() {
	if k.manager == nil && !k.halted[""] {
		k.manager = k.newProcess("karmada-controller-manager", nil)
	}
	for _, name := range sortedStrings(k.agents) {
		if member := k.members[name]; k.agents[name] == nil && !k.halted[name] && !member.cut {
			k.agents[name] = k.newProcess("karmada-agent-"+name, member)
		}
	}
}

// StopManager ends karmada-controller-manager: it loses its queues, its caches and the
// passes that are under way.
func (k *Karmada) StopManager() {
	k.halted[""] = true
	if k.manager != nil {
		k.manager.stop()
		k.manager = nil
	}
}

// StartManager lets karmada-controller-manager run again.
func (k *Karmada) StartManager() { delete(k.halted, "") }

// StopAgent ends the agent of a pull member, as StopManager does.
func (k *Karmada) StopAgent(member string) {
	k.halted[member] = true
	if agent := k.agents[member]; agent != nil {
		agent.stop()
		k.agents[member] = nil
	}
}

// StartAgent lets the agent of a pull member run again.
func (k *Karmada) StartAgent(member string) { delete(k.halted, member) }

// processes returns what runs.
func (k *Karmada) processes() []*process {
	var running []*process
	if k.manager != nil {
		running = append(running, k.manager)
	}
	for _, name := range sortedStrings(k.agents) {
		if agent := k.agents[name]; agent != nil {
			running = append(running, agent)
		}
	}
	return running
}

// Actions returns what the actors can do now, sorted by name. With an API server that has
// not changed, the next call returns the same.
func (k *Karmada) Actions(ctx context.Context) ([]Action, error) {
	if err := k.update(ctx); err != nil {
		return nil, err
	}
	k.startProcesses()
	actions := append(k.collector.actions(), k.commands.actions()...)
	for _, p := range k.processes() {
		actions = append(actions, p.actions()...)
	}
	for _, name := range sortedStrings(k.members) {
		actions = append(actions, k.members[name].emptying()...)
		actions = append(actions, k.members[name].working()...)
	}
	slices.SortStableFunc(actions, func(a, b Action) int { return cmp.Compare(a.Name, b.Name) })
	return actions, nil
}

// NextDeadline returns the next moment at which something becomes possible that is not
// possible now, such as a retry or a poll; false if there is none.
func (k *Karmada) NextDeadline() (time.Time, bool) {
	if !k.begun {
		return time.Time{}, false
	}
	runners := slices.Concat(k.collector.runners, k.commands.runners())
	for _, p := range k.processes() {
		runners = append(runners, p.runners...)
	}
	var next earliest
	for _, r := range runners {
		if at, ok := r.deadline(); ok {
			next.after(k.now(), at)
		}
	}
	return next.at, next.known
}

// RepeatsReports reports whether the report of some object has failed, and is to be
// repeated: up to 1000 s after the last attempt, unless the object changes before.
func (k *Karmada) RepeatsReports() bool {
	return slices.ContainsFunc(k.processes(), func(p *process) bool { return len(p.statuses.queue.failures) > 0 })
}

// resourceOf names a kind of a member in error messages.
func (k *Karmada) resourceOf(cluster string, kind schema.GroupVersionKind) schema.GroupResource {
	if member := k.members[cluster]; member != nil {
		return member.kinds[kind].groupResource()
	}
	return schema.GroupResource{Group: kind.Group, Resource: kind.Kind}
}
