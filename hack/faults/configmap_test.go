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
	"time"

	corev1 "k8s.io/api/core/v1"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// configMap returns a ConfigMap that identifies one of the namespace.
func (ns *Namespace) configMap(name string) *corev1.ConfigMap {
	named := testbed.ConfigMap(name, "")
	named.Namespace = ns.Name
	return named
}

// runs checks, without waiting, that a member's ConfigMap matches the control plane.
func (ns *Namespace) runs(m *Member, name string) {
	ns.T.Helper()
	if err := ns.Differs(ns.Ctx, m, ns.configMap(name)); err != nil {
		ns.T.Errorf("the status says that %s runs it, but: %v", m.Name, err)
	}
}

// lacks returns an error unless the ConfigMap does not exist on the member.
func (ns *Namespace) lacks(ctx context.Context, m *Member, name string) error {
	return m.Lacks(ctx, ns.configMap(name))
}

// comesToLack waits until a member no longer has a ConfigMap, and returns the time
// of that.
func (ns *Namespace) comesToLack(m *Member, name string) time.Time {
	ns.T.Helper()
	return ns.ComeToLack(ns.configMap(name), m)
}

// work returns the last recorded state of the Work of a ConfigMap for a cluster, or
// nil if there is none.
func (ns *Namespace) work(cluster, name string) *workv1alpha1.Work {
	work, _ := works.Latest(ns.WorkKey(testbed.Reference("v1", "ConfigMap", name), cluster)).(*workv1alpha1.Work)
	return work
}
