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
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// The dependencies of a Deployment follow it. Two Deployments can share them. They
// follow changes, and are removed with the last Deployment that needs them. A
// missing dependency is named.
func TestDependenciesFollow(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	settings, other := testbed.ConfigMap("settings", "shared"), testbed.ConfigMap("other", "named by itself")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"key": []byte("secret")}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for _, resource := range []client.Object{settings, other, secret, account} {
		ns.Has(resource)
		ns.NoteWork(testbed.ReferenceTo(resource))
	}
	first, second := needing("first", "shop", "key", "settings"), needing("second", "shop", "key", "settings", "absent")
	ns.Has(first)
	ns.Has(second)
	ns.dependenciesFollow(first, second, settings, secret)
}

// needing builds a Deployment that needs an account, a Secret and some ConfigMaps.
func needing(name, account, secret string, configMaps ...string) *appsv1.Deployment {
	made := testbed.Deployment(name, "web:1", 1)
	pod := &made.Spec.Template.Spec
	pod.ServiceAccountName = account
	pod.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}
	for _, name := range configMaps {
		pod.Containers[0].EnvFrom = append(pod.Containers[0].EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}})
	}
	return made
}

// dependenciesFollow propagates two Deployments that share some dependencies.
func (ns *Namespace) dependenciesFollow(shared, alone *appsv1.Deployment, settings *corev1.ConfigMap, secret *corev1.Secret) {
	ns.T.Helper()
	follow := func(object *DirectPropagation) { object.Spec.PropagateDeps = ptr.To(true) }
	first := ns.Propagates("first", shared).With(follow).To(members...)
	second := ns.Propagates("second", alone).With(follow).To(member2)
	haveFollowed(first, 3, 3)
	first.BecomesReady()
	ns.NowRun(settings, members...)
	ns.NowRun(secret, members...)
	haveFollowed(second, 4, 3)
	unready := second.Latest().Status.Dependencies.Unready
	if len(unready) != 1 || unready[0].Name != "absent" || unready[0].Reason != propagationv1alpha1.ReasonResourceNotFound {
		ns.T.Errorf("unready dependencies are %+v", unready)
	}
	absent := testbed.ConfigMap("absent", "at last")
	ns.Has(absent)
	ns.NoteWork(testbed.ReferenceTo(absent))
	haveFollowed(second, 4, 4)
	ns.ComeToRun(absent, member2)
	ns.Now("what only the second needs reaches only its cluster", func(ctx context.Context) error { return testbed.Lack(ctx, absent, member1) })

	testbed.Changes(ns.Namespace, settings, testbed.Saying("changed"))
	ns.ComeToRun(settings, members...)

	// An object that names a dependency explicitly takes it over, and gives it back
	// when it is deleted.
	named := ns.Propagates("settings", settings).To(members...)
	named.BecomesReady()
	haveFollowed(first, 3, 3)
	named.IsDeleted()
	ns.ComeToRun(settings, members...)

	first.IsDeleted()
	ns.ComeToLack(settings, member1)
	ns.ComeToLack(secret, member1)
	ns.NowRun(settings, member2)
	second.IsDeleted()
	for _, resource := range []client.Object{settings, secret, absent} {
		ns.ComeToLack(resource, members...)
	}
}

// haveFollowed waits until the resource has the given numbers of dependencies and of
// ready dependencies.
func haveFollowed(p *Propagation, total, ready int32) {
	p.NS.T.Helper()
	p.Becomes(fmt.Sprintf("%d of %d dependencies are ready", ready, total), func(object *DirectPropagation) error {
		if fares := object.Status.Dependencies; fares == nil || *fares.Total != total || *fares.Ready != ready {
			return fmt.Errorf("dependencies: %s", testbed.YAML(fares))
		}
		return nil
	})
}
