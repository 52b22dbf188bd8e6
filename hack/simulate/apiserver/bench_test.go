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

package apiserver_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/apis"
	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// crowded returns a server that has the CRDs of this project and 1,000 ConfigMaps.
func crowded(b *testing.B) (*apiserver.Server, client.Client) {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, propagationv1alpha1.AddToScheme} {
		must(b, add(scheme))
	}
	crds, err := apis.CRDs()
	must(b, err)
	server, err := apiserver.New(apiserver.Options{Scheme: scheme, CRDs: crds})
	must(b, err)
	user := clientOf(b, server, "user")
	create(b, user, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	for i := range 1000 {
		create(b, user, configMapOf(fmt.Sprintf("c%d", i)))
	}
	return server, user
}

func BenchmarkGet(b *testing.B) {
	_, user := crowded(b)
	for b.Loop() {
		must(b, user.Get(b.Context(), keyOf("c7"), &corev1.ConfigMap{}))
	}
}

func BenchmarkList1000(b *testing.B) {
	_, user := crowded(b)
	for b.Loop() {
		must(b, user.List(b.Context(), &corev1.ConfigMapList{}))
	}
}

func BenchmarkUpdate(b *testing.B) {
	_, user := crowded(b)
	object, i := configMapOf("c7"), 0
	for b.Loop() {
		i++
		object.Data = map[string]string{"count": fmt.Sprint(i)}
		must(b, user.Update(b.Context(), object))
	}
}

// BenchmarkUpdateWithRules updates an object whose CRD has rules in CEL.
func BenchmarkUpdateWithRules(b *testing.B) {
	for _, clusters := range []int{2, 1000} {
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			_, user := crowded(b)
			object, i := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, 0
			object.Spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c7"}
			for cluster := range clusters {
				object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: fmt.Sprintf("m%d", cluster)})
			}
			create(b, user, object)
			for b.Loop() {
				i++
				object.Annotations = map[string]string{"count": fmt.Sprint(i)}
				must(b, user.Update(b.Context(), object))
			}
		})
	}
}

func BenchmarkStatusWithRules(b *testing.B) {
	_, user := crowded(b)
	object, i := &propagationv1alpha1.DirectPropagation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}, 0
	object.Spec.Resource = propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c7"}
	object.Spec.Clusters = []propagationv1alpha1.TargetCluster{{Name: "m1"}}
	create(b, user, object)
	for b.Loop() {
		i++
		generation := int64(i)
		object.Status.ObservedGeneration = &generation
		must(b, user.Status().Update(b.Context(), object))
	}
}

// BenchmarkDelivery updates an object that ten clients watch, and delivers the events.
func BenchmarkDelivery(b *testing.B) {
	server, user := crowded(b)
	set, err := kubernetes.NewForConfig(prompt(server))
	must(b, err)
	const watchers = 10
	watches := [watchers]watch.Interface{}
	for i := range watches {
		watches[i], err = set.CoreV1().ConfigMaps("shop").Watch(b.Context(), metav1.ListOptions{ResourceVersion: now(server)})
		must(b, err)
	}
	object, i := configMapOf("c7"), 0
	for b.Loop() {
		i++
		object.Data = map[string]string{"count": fmt.Sprint(i)}
		must(b, user.Update(b.Context(), object))
		for _, each := range watches {
			<-each.ResultChan()
		}
	}
	b.ReportMetric(watchers, "events/op")
}

// BenchmarkNew makes a server with the CRDs of this project.
func BenchmarkNew(b *testing.B) {
	crds, err := apis.CRDs()
	must(b, err)
	for b.Loop() {
		_, err := apiserver.New(apiserver.Options{CRDs: crds})
		must(b, err)
	}
}
