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
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// process is karmada-controller-manager, or the karmada-agent of one cluster. It keeps
// in memory what the real one does: caches of the control plane and of members, the
// versions that it wrote, the queues, and the passes that are under way.
type process struct {
	karmada *Karmada
	name    string
	// agentOf is the member whose agent this is; nil for karmada-controller-manager.
	agentOf *Member

	works    *view[*workv1alpha1.Work]
	clusters *view[*clusterv1alpha1.Cluster]
	// namespaces and bindings are watched by karmada-controller-manager alone.
	namespaces *view[*corev1.Namespace]
	bindings   *view[client.Object]
	templates  *view[client.Object]

	informers  map[string]*memberInformers
	versions   map[string]map[Key]string
	thresholds map[string]threshold
	leases     map[string]bool
	// probes is what the monitor of karmada-controller-manager knows of pull clusters.
	probes map[string]*probe

	runners  []runner
	statuses *controller[memberKey]
	// startLease begins to renew the lease of a cluster; nil but for agents.
	startLease func(types.NamespacedName)
}

// memberKey names an object of a cluster.
type memberKey struct {
	cluster string
	Key
}

func (k memberKey) String() string { return k.cluster + " " + k.Key.String() }

func (k *Karmada) newProcess(name string, agentOf *Member) *process {
	p := &process{
		karmada: k, name: name, agentOf: agentOf,
		works: newView(name, k.works), clusters: newView(name, k.clusters),
		informers: map[string]*memberInformers{}, versions: map[string]map[Key]string{},
		thresholds: map[string]threshold{}, leases: map[string]bool{}, probes: map[string]*probe{},
	}
	p.works.cut, p.clusters.cut = p.isCut, p.isCut
	if agentOf == nil {
		p.namespaces, p.bindings, p.templates = newView(name, k.namespaces), newView(name, k.bindings), newView(name, k.templates)
	} else {
		space := names.GenerateExecutionSpaceName(agentOf.Name)
		p.works.wants = func(work *workv1alpha1.Work) bool { return work.Namespace == space }
		p.clusters.wants = func(cluster *clusterv1alpha1.Cluster) bool { return cluster.Name == agentOf.Name }
	}
	p.runExecution()
	p.runWorkStatus()
	p.runClusterStatus()
	if agentOf == nil {
		p.runClusters()
		p.runMonitor()
		p.runNamespaceSync()
		p.runBindings()
		p.runScheduler()
		p.namespaces.start()
		p.templates.start()
		p.bindings.start()
	}
	p.clusters.start()
	p.works.start()
	return p
}

// stop takes the views of a process that ends off the journals.
func (p *process) stop() {
	p.works.leave()
	p.clusters.leave()
	if p.agentOf == nil {
		p.namespaces.leave()
		p.bindings.leave()
		p.templates.leave()
	}
}

func (p *process) actions() []Action {
	actions := append(p.works.actions(), p.clusters.actions()...)
	if p.agentOf == nil {
		actions = append(actions, p.namespaces.actions()...)
		actions = append(actions, p.bindings.actions()...)
		actions = append(actions, p.templates.actions()...)
	}
	for _, cluster := range sortedStrings(p.informers) {
		actions = append(actions, p.informers[cluster].actions()...)
	}
	for _, r := range p.runners {
		actions = append(actions, r.actions()...)
	}
	return actions
}

// now returns the time by the clock of the machine that the process runs on. It goes
// into conditions. Deadlines are relative, so they use the clock of the simulation.
func (p *process) now() time.Time {
	if p.agentOf != nil {
		return p.agentOf.Now()
	}
	return p.karmada.now()
}

// isCut reports whether the process cannot reach the control plane.
func (p *process) isCut() bool { return p.agentOf != nil && p.agentOf.cut }

var errCutOff = errors.New("the control plane cannot be reached")

// api returns the client of the control plane, for one write.
func (p *process) api() (client.Client, error) {
	if p.isCut() {
		return nil, fmt.Errorf("%w: %w", errCutOff, errNoRoute)
	}
	return p.karmada.client, nil
}

// member returns the member of a cluster, for one request.
func (p *process) member(cluster, verb string) (*Member, error) {
	m := p.karmada.members[cluster]
	if m == nil || p.agentOf == nil && m.cut {
		return nil, refused(verb, cluster)
	}
	return m, nil
}

// handles reports whether the controllers of the process that deal with members are
// responsible for a cluster, see helper.WorkWithinPushClusterPredicate. A Work of a
// cluster that the process does not know yet concerns nobody.
func (p *process) handles(cluster string) bool {
	if p.agentOf != nil {
		return p.agentOf.Name == cluster
	}
	known := p.clusters.objects[types.NamespacedName{Name: cluster}]
	return known != nil && known.Spec.SyncMode == clusterv1alpha1.Push
}

// handlesWork is handles for the cluster of a Work.
func (p *process) handlesWork(work *workv1alpha1.Work) bool {
	cluster, err := names.GetClusterName(work.Namespace)
	return err == nil && p.handles(cluster)
}

// mapped checks that the control plane knows a kind: Karmada maps kinds to resources by
// the discovery of the control plane, not by that of the member.
func (p *process) mapped(kind schema.GroupVersionKind) error {
	if p.karmada.options.Known == nil {
		return nil
	}
	return p.karmada.options.Known(kind)
}
