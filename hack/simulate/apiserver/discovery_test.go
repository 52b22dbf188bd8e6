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
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

// withGadgets returns a server with the CRD of the script.
func withGadgets(t *testing.T) *apiserver.Server {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{gadgetCRD()}})
	must(t, err)
	create(t, clientOf(t, server, "user"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	return server
}

func prompt(server *apiserver.Server) *rest.Config {
	config := server.Config("user")
	config.Transport = server.Immediate("user")
	return config
}

// TestDiscovery asks what is served, in both forms.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	server := withGadgets(t)
	for _, legacy := range []bool{false, true} {
		discover, err := discovery.NewDiscoveryClientForConfig(server.Config("controller"))
		must(t, err)
		discover.UseLegacyDiscovery = legacy
		_, lists, err := discover.ServerGroupsAndResources()
		must(t, err)
		found := []string{}
		for _, list := range lists {
			for i := range list.APIResources {
				found = append(found, list.GroupVersion+" "+list.APIResources[i].Name)
			}
		}
		for _, want := range []string{"v1 configmaps", "v1 namespaces/status", "apps/v1 deployments", "example.org/v1 gadgets", "example.org/v2 gadgets/status"} {
			if !slices.Contains(found, want) {
				t.Errorf("legacy %t: %s is not among %v", legacy, want, found)
			}
		}
	}
}

// TestMapper follows a CRD that comes, loses a version and goes.
func TestMapper(t *testing.T) {
	t.Parallel()
	server, crd := newServer(t), gadgetCRD()
	user := clientOf(t, server, "user")
	lookUp := func(version string) error {
		t.Helper()
		config := server.Config("controller")
		client, err := rest.HTTPClientFor(config)
		must(t, err)
		mapper, err := apiutil.NewDynamicRESTMapper(config, client)
		must(t, err)
		_, err = mapper.RESTMapping(schema.GroupKind{Group: "example.org", Kind: "Gadget"}, version)
		return err
	}
	if err := lookUp("v1"); !meta.IsNoMatchError(err) {
		t.Errorf("before the CRD: %v", err)
	}
	create(t, user, crd)
	must(t, lookUp("v1"))
	must(t, lookUp("v2"))
	must(t, user.Get(t.Context(), keyOf("gadgets.example.org"), crd))
	crd.Spec.Versions[1].Served = false
	must(t, user.Update(t.Context(), crd))
	must(t, lookUp("v1"))
	if err := lookUp("v2"); !meta.IsNoMatchError(err) {
		t.Errorf("without the version: %v", err)
	}
	must(t, user.Delete(t.Context(), crd))
	if err := lookUp("v1"); !meta.IsNoMatchError(err) {
		t.Errorf("without the CRD: %v", err)
	}
}

// TestDiscoveryFails makes the discovery of one group fail, and that of all.
func TestDiscoveryFails(t *testing.T) {
	t.Parallel()
	server := withGadgets(t)
	discover, err := discovery.NewDiscoveryClientForConfig(server.Config("controller"))
	must(t, err)
	server.FailDiscovery("example.org", apierrors.NewServiceUnavailable("down"))
	if _, err := discover.ServerResourcesForGroupVersion("example.org/v1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the group: %v", err)
	}
	_, lists, err := discover.ServerGroupsAndResources()
	failed, partly := discovery.GroupDiscoveryFailedErrorGroups(err)
	if _, stale := failed[schema.GroupVersion{Group: "example.org", Version: "v1"}]; !partly || !stale || len(lists) == 0 {
		t.Errorf("all groups: %d lists, %v", len(lists), err)
	}
	server.RestoreDiscovery("example.org")
	server.FailDiscovery(apiserver.Everything, apierrors.NewInternalError(errors.New("down")))
	if _, err := discover.ServerGroups(); !apierrors.IsInternalError(err) {
		t.Errorf("everything: %v", err)
	}
	server.RestoreDiscovery(apiserver.Everything)
	_, err = discover.ServerResourcesForGroupVersion("example.org/v1")
	must(t, err)
}

// TestDiscoveryHangs has discovery wait for its end, and for the client's patience.
func TestDiscoveryHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := withGadgets(t)
		server.HangDiscovery("example.org")
		config := server.Config("controller")
		config.Timeout = 3 * time.Second
		discover, err := discovery.NewDiscoveryClientForConfig(config)
		must(t, err)
		began := time.Now()
		if _, err := discover.ServerResourcesForGroupVersion("example.org/v1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the client got %v", err)
		}
		if waited := time.Since(began); waited != config.Timeout {
			t.Errorf("the client waited for %v, want %v", waited, config.Timeout)
		}
		time.AfterFunc(2*time.Second, func() { server.RestoreDiscovery("example.org") })
		_, err = discover.ServerResourcesForGroupVersion("example.org/v1")
		must(t, err)
	})
}

// TestClients uses the clients of client-go, with and without protobuf.
func TestClients(t *testing.T) {
	t.Parallel()
	server := withGadgets(t)
	objects, err := dynamic.NewForConfig(prompt(server))
	must(t, err)
	resource := schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gadgets"}
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"size": "small"},
	}}
	_, err = objects.Resource(resource).Namespace("shop").Create(t.Context(), made, metav1.CreateOptions{})
	must(t, err)
	partial, err := metadata.NewForConfig(prompt(server))
	must(t, err)
	list, err := partial.Resource(resource).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].Name != "web" || list.Items[0].Generation != 1 {
		t.Errorf("metadata: %+v", list.Items)
	}
	config := prompt(server)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	set, err := kubernetes.NewForConfig(config)
	must(t, err)
	sent := configMapOf("web")
	sent.BinaryData = map[string][]byte{"key": {0, 255}}
	created, err := set.CoreV1().ConfigMaps("shop").Create(t.Context(), sent, metav1.CreateOptions{})
	must(t, err)
	if string(created.BinaryData["key"]) != "\x00\xff" {
		t.Errorf("the data is %v", created.BinaryData)
	}
	wrong := metav1.NewUIDPreconditions("other")
	if err := set.CoreV1().ConfigMaps("shop").Delete(t.Context(), "web", metav1.DeleteOptions{Preconditions: wrong}); !apierrors.IsConflict(err) {
		t.Errorf("deleting another identity: %v", err)
	}
	must(t, set.CoreV1().ConfigMaps("shop").Delete(t.Context(), "web", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(created.UID))}))
}

// TestUnfitCRD expects a CRD whose schema is not structural to be refused, and an
// update to one to change nothing.
func TestUnfitCRD(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	user, crd := clientOf(t, server, "user"), gadgetCRD()
	unfit := crd.DeepCopy()
	unfit.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{Required: []string{"size"}}
	if err := user.Create(t.Context(), unfit.DeepCopy()); !apierrors.IsInvalid(err) {
		t.Errorf("creating it: %v", err)
	}
	create(t, user, crd)
	must(t, user.Get(t.Context(), keyOf(crd.Name), crd))
	before := server.ResourceVersion()
	crd.Spec = unfit.Spec
	if err := user.Update(t.Context(), crd); !apierrors.IsInvalid(err) {
		t.Errorf("updating to it: %v", err)
	}
	if server.ResourceVersion() != before {
		t.Error("the update had an effect")
	}
}

// TestDiscoveryLag shows a new kind only after some time, whereas its objects are served
// at once.
func TestDiscoveryLag(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server, err := apiserver.New(apiserver.Options{Now: func() time.Time { return now }, DiscoveryLag: time.Second})
	must(t, err)
	create(t, clientOf(t, server, "user"), gadgetCRD())
	discover, err := discovery.NewDiscoveryClientForConfig(server.Config("controller"))
	must(t, err)
	objects, err := dynamic.NewForConfig(prompt(server))
	must(t, err)
	for _, served := range []bool{false, true} {
		if _, err := discover.ServerResourcesForGroupVersion("example.org/v1"); apierrors.IsNotFound(err) == served {
			t.Errorf("at %v, the kind should be there: %t, but discovery says: %v", now, served, err)
		}
		_, err := objects.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gadgets"}).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		now = now.Add(time.Second)
	}
}
