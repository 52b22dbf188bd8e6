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

package testbed

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// server is an API server of ConfigMaps whose watches the test controls.
type server struct {
	list    chan []corev1.ConfigMap
	watches chan *watch.FakeWatcher
	// versions receives the version at which each watch begins.
	versions chan string
}

func newServer() *server {
	return &server{list: make(chan []corev1.ConfigMap, 9), watches: make(chan *watch.FakeWatcher, 9), versions: make(chan string, 9)}
}

func (s *server) bed() *Bed {
	calls := interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			items, _ := list.(*corev1.ConfigMapList)
			items.Items, items.ResourceVersion = <-s.list, "100"
			return nil
		},
		Watch: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			s.versions <- (&client.ListOptions{}).ApplyOptions(options).Raw.ResourceVersion
			return <-s.watches, nil
		},
	}
	bed := newBed(Options{Name: "test", Unbroken: true}, nil)
	bed.Karmada = interceptor.NewClient(fake.NewClientBuilder().Build(), calls)
	return bed
}

// nextWatch returns the next watch, which must begin at a version.
func (s *server) nextWatch(t *testing.T, from string) *watch.FakeWatcher {
	t.Helper()
	watching := watch.NewFake()
	s.watches <- watching
	if version := <-s.versions; version != from {
		t.Errorf("a watch begins at version %q, want %q", version, from)
	}
	return watching
}

func stateOf(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version}}
}

func versionsOf(sightings []Sighting) []string {
	versions := []string{}
	for _, sighting := range sightings {
		version := sighting.Object.GetResourceVersion()
		if sighting.Gone {
			version = "gone"
		}
		versions = append(versions, version)
	}
	return versions
}

func isVersion(version string) func(Sighting) error {
	return func(seen Sighting) error {
		if seen.Object.GetResourceVersion() != version {
			return errors.New("it has version " + seen.Object.GetResourceVersion())
		}
		return nil
	}
}

// A watch that ends is resumed where it ended, and no state is missed.
func TestRecorderGoesOn(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.list <- []corev1.ConfigMap{*stateOf("web", "1")}
	r, err := s.bed().Record(t.Context(), &corev1.ConfigMapList{})
	if err != nil {
		t.Fatal(err)
	}
	web, all := client.ObjectKey{Namespace: "shop", Name: "web"}, make(chan string, 9)
	stop := r.OnEach(web, func(object client.Object) { all <- object.GetResourceVersion() })
	watching := s.nextWatch(t, "100")
	watching.Modify(stateOf("web", "101"))
	watching.Modify(stateOf("other", "102"))
	watching.Stop()
	watching = s.nextWatch(t, "102")
	watching.Error(&metav1.Status{Reason: metav1.StatusReasonTimeout, Code: http.StatusGatewayTimeout}) // its cache lags
	watching = s.nextWatch(t, "102")
	watching.Delete(stateOf("other", "103"))
	watching.Modify(stateOf("web", "104"))
	if _, err := r.Await(t.Context(), web, time.Time{}, time.Minute, isVersion("104")); err != nil {
		t.Fatal(err)
	}
	if got := versionsOf(r.Of(web, time.Time{})); !slices.Equal(got, []string{"1", "101", "104"}) {
		t.Errorf("the recorded versions of web are %v", got)
	}
	if got := versionsOf(r.Since(time.Time{})); !slices.Equal(got, []string{"1", "101", "102", "gone", "104"}) {
		t.Errorf("the recorded versions of all objects are %v", got)
	}
	if r.Latest(client.ObjectKey{Namespace: "shop", Name: "other"}) != nil || r.fault() != nil {
		t.Errorf("other still exists, or states were missed: %v", r.fault())
	}
	for _, want := range []string{"1", "101", "104"} {
		if got := <-all; got != want {
			t.Errorf("the reader gets version %s, want %s", got, want)
		}
	}
	stop()
}

// When a watch cannot resume, the recorder finds the changes with a list. Possibly
// missed states are a fault for tests that need every state.
func TestRecorderMissesStates(t *testing.T) {
	t.Parallel()
	s := newServer()
	s.list <- []corev1.ConfigMap{*stateOf("web", "1"), *stateOf("other", "2")}
	r, err := s.bed().Record(t.Context(), &corev1.ConfigMapList{})
	if err != nil {
		t.Fatal(err)
	}
	watching := s.nextWatch(t, "100")
	s.list <- []corev1.ConfigMap{*stateOf("web", "90")}
	watching.Error(&metav1.Status{Reason: metav1.StatusReasonExpired, Code: http.StatusGone})
	s.nextWatch(t, "100")
	if got := versionsOf(r.Since(time.Time{})); !slices.Equal(got, []string{"1", "2", "90", "gone"}) {
		t.Errorf("the recorded versions are %v", got)
	}
	_, err = r.Await(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, time.Time{}, time.Minute, isVersion("95"))
	if err == nil || !strings.Contains(err.Error(), "has missed states") || !strings.Contains(err.Error(), "it has version 90") {
		t.Errorf("waiting ended with %v", err)
	}
}

// A wait that times out reports what it waited for and the last error.
func TestAwaitSaysWhy(t *testing.T) {
	t.Parallel()
	bed := newBed(Options{}, nil)
	_, err := bed.AwaitFor(t.Context(), 3*Glance, "the shop opens", func(context.Context) error { return errors.New("it is closed") })
	if err == nil || err.Error() != "waited 150ms until the shop opens: it is closed" {
		t.Errorf("waiting ended with %v", err)
	}
	bed.Controller = &Controller{}
	bed.Controller.Program, bed.Controller.Name, bed.Controller.Log = "/bin/false", "controller", t.TempDir()+"/log"
	if err := bed.Controller.Start(); err != nil {
		t.Fatal(err)
	}
	err = bed.Await(t.Context(), "the shop opens", func(context.Context) error { return errors.New("it is closed") })
	if err == nil || !strings.Contains(err.Error(), "controller exited unexpectedly: exit status 1") || !strings.Contains(err.Error(), "it is closed") {
		t.Errorf("waiting ended with %v", err)
	}
	if err := Throughout(t.Context(), 3*Glance, "the shop stays open", func(context.Context) error { return errors.New("it closes") }); err == nil ||
		err.Error() != "for 150ms, the shop stays open: it closes" {
		t.Errorf("Throughout ended with %v", err)
	}
	if err := Throughout(t.Context(), 3*Glance, "the shop stays open", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}
