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
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

// TestObserve expects each write that took effect once, in order.
func TestObserve(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	user := clientOf(t, server, "user")
	create(t, user, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	got := []string{}
	server.Observe(func(write apiserver.Write) {
		line := fmt.Sprintf("%s %s %s %s", write.Client, write.Verb, write.Resource, write.Name)
		for _, object := range []*unstructured.Unstructured{write.Before, write.After} {
			if object == nil {
				line += " -"
			} else {
				line += " " + object.GetLabels()["is"]
			}
		}
		if write.After != nil && fmt.Sprint(write.ResourceVersion) != write.After.GetResourceVersion() {
			t.Errorf("%s: the version is %d, that of the object %s", line, write.ResourceVersion, write.After.GetResourceVersion())
		}
		got = append(got, line)
	})
	object := configMapOf("web")
	object.Labels, object.Finalizers = map[string]string{"is": "new"}, []string{"example.org/hold"}
	create(t, user, object)
	if err := user.Create(t.Context(), configMapOf("web")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating it twice: %v", err)
	}
	object.Labels["is"] = "changed"
	must(t, user.Update(t.Context(), object))
	must(t, user.Update(t.Context(), object))
	must(t, user.Create(t.Context(), configMapOf("trial"), client.DryRunAll))
	must(t, user.Delete(t.Context(), object))
	must(t, user.Get(t.Context(), keyOf("web"), object))
	controllerutil.RemoveFinalizer(object, "example.org/hold")
	must(t, user.Update(t.Context(), object))
	want := []string{
		"user create configmaps web - new", "user update configmaps web new changed",
		"user delete configmaps web changed changed", "user update configmaps web changed -",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestObserveFromCheck reads and writes while a write is observed.
func TestObserveFromCheck(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	user, check := clientOf(t, server, "user"), clientOf(t, server, "check")
	seen := 0
	server.Observe(func(write apiserver.Write) {
		list := &corev1.NamespaceList{}
		must(t, check.List(t.Context(), list))
		if seen = len(list.Items); seen == 1 {
			create(t, check, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "follows-" + write.Name}})
		}
	})
	create(t, user, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	if seen != 2 {
		t.Errorf("the last check saw %d namespaces, want 2", seen)
	}
}

// TestAdmit refuses writes as a policy does.
func TestAdmit(t *testing.T) {
	t.Parallel()
	server, err := apiserver.New(apiserver.Options{Admit: func(write apiserver.Write) error {
		if write.Client != "admin" && write.Name == "guarded" {
			return apierrors.NewForbidden(write.GroupResource(), write.Name, errors.New("it is guarded against "+write.Verb))
		}
		return nil
	}})
	must(t, err)
	admin, user := clientOf(t, server, "admin"), clientOf(t, server, "user")
	guarded := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}}
	for verb, attempt := range map[string]func() error{
		"create": func() error { return user.Create(t.Context(), guarded.DeepCopy()) },
		"update": func() error {
			_ = admin.Create(t.Context(), guarded.DeepCopy())
			return user.Update(t.Context(), guarded.DeepCopy())
		},
		"delete": func() error {
			_ = admin.Create(t.Context(), guarded.DeepCopy())
			return user.Delete(t.Context(), guarded.DeepCopy())
		},
	} {
		want := `namespaces "guarded" is forbidden: it is guarded against ` + verb
		if err := attempt(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", verb, err, want)
		}
	}
	must(t, admin.Update(t.Context(), guarded))
}

// TestFinishNamespace deletes a Namespace with all that it holds.
func TestFinishNamespace(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	user := clientOf(t, server, "user")
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	create(t, user, shop)
	held := configMapOf("held")
	held.Finalizers = []string{"example.org/hold"}
	create(t, user, held)
	create(t, user, configMapOf("free"))
	if gone, err := server.FinishNamespace("shop"); gone || err != nil || !exists(t, server, "free") {
		t.Errorf("a Namespace that nobody deletes is finished: %t, %v", gone, err)
	}
	must(t, user.Delete(t.Context(), shop))
	if gone, err := server.FinishNamespace("shop"); gone || err != nil {
		t.Errorf("a Namespace that holds something is gone: %t, %v", gone, err)
	}
	if exists(t, server, "free") || !exists(t, server, "held") {
		t.Error("the wrong objects are left")
	}
	must(t, user.Get(t.Context(), keyOf("held"), held))
	held.Finalizers = nil
	must(t, user.Update(t.Context(), held))
	if gone, err := server.FinishNamespace("shop"); !gone || err != nil {
		t.Errorf("the Namespace is gone: %t, %v", gone, err)
	}
	if err := user.Get(t.Context(), client.ObjectKeyFromObject(shop), shop); !apierrors.IsNotFound(err) {
		t.Errorf("the Namespace is there: %v", err)
	}
}

// TestSameHistory expects two servers that get the same requests to make the same
// identities and names.
func TestSameHistory(t *testing.T) {
	t.Parallel()
	histories := [2][]string{}
	for i := range histories {
		server := newServer(t)
		server.Observe(func(write apiserver.Write) {
			histories[i] = append(histories[i], fmt.Sprint(write.Verb, write.Name, write.After.GetUID(), write.ResourceVersion))
		})
		user := clientOf(t, server, "user")
		create(t, user, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		for range 100 {
			create(t, user, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "made-"}})
		}
	}
	if diff := cmp.Diff(histories[0], histories[1]); diff != "" {
		t.Errorf("histories (-first +second):\n%s", diff)
	}
}
