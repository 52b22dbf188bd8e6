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

package cached

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	discoveryfake "k8s.io/client-go/discovery/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// watchBench is Watches in front of a fake API server that can refuse lists and
// watches, with one user of ConfigMaps.
type watchBench struct {
	*Watches
	user types.NamespacedName

	mu      sync.Mutex
	refusal map[string]error
	woken   []types.NamespacedName
	// end ends the watch that is established.
	end func()
}

func newWatchBench(t *testing.T) *watchBench {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	settings := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", UID: "uid", ResourceVersion: "7"},
	}
	server := metadatafake.NewSimpleMetadataClient(scheme, settings)
	b := &watchBench{user: types.NamespacedName{Namespace: "shop", Name: "web"}, refusal: map[string]error{}}
	server.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := b.refused("list")
		return err != nil, nil, err
	})
	server.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		if err := b.refused("watch"); err != nil {
			return true, nil, err
		}
		established := watch.NewFake()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.end = established.Stop
		return true, established, nil
	})
	b.Watches = NewWatches(t.Context(), server, func(schema.GroupVersionResource, types.NamespacedName, bool) {}, func(_ schema.GroupVersionResource, user types.NamespacedName) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.woken = append(b.woken, user)
	})
	b.Track(b.user, configMaps)
	return b
}

func (b *watchBench) refused(verb string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal[verb]
}

// refuses makes the API server refuse a verb from now on, or stop refusing it, and
// ends the established watch.
func (b *watchBench) refuses(verb string, err error) {
	b.mu.Lock()
	b.refusal[verb] = err
	end := b.end
	b.end = nil
	b.mu.Unlock()
	if end != nil {
		end()
	}
}

// isFailingNow reports whether the last attempt to watch has failed.
func (b *watchBench) isFailingNow() bool {
	b.Watches.mu.Lock()
	defer b.Watches.mu.Unlock()
	return b.watches[configMaps].failure != nil
}

func (b *watchBench) unchanged() bool { return b.Unchanged(configMaps, "shop", "settings", "uid", "7") }

func (b *watchBench) wakes() []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.woken)
}

func becomesTrue(t *testing.T, what string, holds func() bool) {
	t.Helper()
	looks := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, looks); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// Each failure has its own grace: one that has just begun is not announced because an
// earlier one began five seconds ago.
func TestFailureHasItsOwnGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWatchBench(t)
		becomesTrue(t, "the watch shows the object", b.unchanged)
		kind := b.watches[configMaps]
		refusal := apierrors.NewServiceUnavailable("restarting")
		b.failed(t.Context(), configMaps, kind, "watch", refusal)
		b.works(configMaps, kind)
		time.Sleep(watchGrace - time.Second) //nolint:forbidigo // the time of the bubble
		b.failed(t.Context(), configMaps, kind, "watch", refusal)
		time.Sleep(2 * time.Second) //nolint:forbidigo // the time of the bubble
		synctest.Wait()
		if err := b.Failure(configMaps); err != nil {
			t.Errorf("after 2 s of a failure, users hear of it: %v", err)
		}
		time.Sleep(watchGrace) //nolint:forbidigo // the time of the bubble
		synctest.Wait()
		if err := b.Failure(configMaps); err == nil {
			t.Error("nobody hears of a failure that lasts")
		}
	})
}

// What a watch has shown counts until the watch fails, whatever its store contains,
// and again once it works. Users are woken both times.
func TestFailedWatchShowsNothing(t *testing.T) {
	for _, verb := range []string{"list", "watch"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			b := newWatchBench(t)
			becomesTrue(t, "the watch shows the object", b.unchanged)
			if err := b.Failure(configMaps); err != nil {
				t.Errorf("the watch works, and has failed with %v", err)
			}
			denied := apierrors.NewForbidden(configMaps.GroupResource(), "", nil)
			if verb == "list" {
				// A reflector lists again only when it cannot continue to watch.
				b.refuses("watch", apierrors.NewResourceExpired("too old"))
			}
			b.refuses(verb, denied)
			becomesTrue(t, "the failure is known", func() bool { return apierrors.IsForbidden(b.Failure(configMaps)) })
			if b.unchanged() {
				t.Error("the object counts as unchanged while it cannot be seen")
			}
			becomesTrue(t, "the user is woken", func() bool { return slices.Equal(b.wakes(), []types.NamespacedName{b.user}) })
			b.refuses("list", nil)
			b.refuses("watch", nil)
			becomesTrue(t, "the watch works", func() bool { return b.Failure(configMaps) == nil })
			becomesTrue(t, "the user is woken again", func() bool { return len(b.wakes()) == 2 })
			becomesTrue(t, "the watch shows the object again", b.unchanged)
		})
	}
}

// A watch that ends and restarts immediately, as when one of several API servers is
// restarted, wakes nobody. Therefore, nobody may hear of its failure: who has heard of it
// would not hear that it is over.
func TestWatchThatBeginsAgainWakesNobody(t *testing.T) {
	t.Parallel()
	b := newWatchBench(t)
	becomesTrue(t, "the watch shows the object", b.unchanged)
	b.refuses("watch", apierrors.NewServiceUnavailable("restarting"))
	becomesTrue(t, "the watch fails", b.isFailingNow)
	if err := b.Failure(configMaps); err != nil {
		t.Errorf("a user hears of a failure that has just begun: %v", err)
	}
	b.refuses("watch", nil)
	becomesTrue(t, "the watch shows the object again", b.unchanged)
	if woken := b.wakes(); len(woken) > 0 {
		t.Errorf("%v were woken", woken)
	}
}

// served is a discovery that knows Deployments.
func served() *discoveryfake.FakeDiscovery {
	return &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true},
			{Name: "deployments/scale", Kind: "Scale", Namespaced: true},
		}},
	}}}
}

// kindsBench is a Kinds in front of an API server whose kinds change.
type kindsBench struct {
	*Kinds
	clock  *clocktesting.FakePassiveClock
	server *discoveryfake.FakeDiscovery
	// clients counts how often a client was created.
	clients int
}

func newKindsBench() *kindsBench {
	b := &kindsBench{clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)), server: served()}
	b.Kinds = NewKinds(nil, b.server, b.clock, func(meta.RESTMapper) (client.Client, error) {
		b.clients++
		return fake.NewClientBuilder().Build(), nil
	})
	return b
}

func (b *kindsBench) after(duration time.Duration) { b.clock.SetTime(b.clock.Now().Add(duration)) }

// asked is how often the API server was asked.
func (b *kindsBench) asked() int { return len(b.server.Actions()) }

func (b *kindsBench) maps(t *testing.T, kind string) string {
	t.Helper()
	mapping, err := b.RESTMapping(schema.GroupKind{Group: "apps", Kind: kind}, "v1")
	switch {
	case meta.IsNoMatchError(err):
		return "none"
	case err != nil:
		t.Fatal(err)
	}
	return mapping.Resource.Resource + " " + string(mapping.Scope.Name())
}

// A kind is requested once, and again after its group has changed: until the API
// server certainly knows about the change, and not more often than needed.
func TestKindsAreAskedForAgainWhenTheyChange(t *testing.T) {
	b := newKindsBench()
	expect := func(want string, asked int) {
		t.Helper()
		if got := b.maps(t, "Deployment"); got != want || b.asked() != asked {
			t.Errorf("a Deployment is %s after %d requests, want %s after %d", got, b.asked(), want, asked)
		}
	}
	expect("deployments namespace", 1)
	b.after(time.Hour)
	expect("deployments namespace", 1)

	b.Changed("batch")
	expect("deployments namespace", 1)
	b.Changed("apps")
	b.after(time.Millisecond)
	expect("deployments namespace", 2)
	expect("deployments namespace", 2)
	if left := b.Unsettled("apps"); left <= kindsSettle-time.Second {
		t.Errorf("the group settles within %v", left)
	}

	b.server.Resources[0].APIResources = []metav1.APIResource{{Name: "deploymentry", Kind: "Deployment"}}
	expect("deployments namespace", 2)
	b.after(kindsFresh)
	expect("deploymentry root", 3)
	b.after(b.Unsettled("apps"))
	expect("deploymentry root", 4)
	b.after(time.Hour)
	expect("deploymentry root", 4)
	if left := b.Unsettled("apps"); left != 0 {
		t.Errorf("after an hour, the group settles within %v", left)
	}
}

// A missing kind is requested again, but not by every object that names it.
func TestMissingKindIsAskedForAgain(t *testing.T) {
	b := newKindsBench()
	for range 10 {
		if got := b.maps(t, "Deploiment"); got != "none" {
			t.Fatalf("a kind that does not exist maps to %s", got)
		}
	}
	if b.asked() != 1 {
		t.Errorf("the API server was asked %d times", b.asked())
	}
	b.server.Resources[0].APIResources = append(b.server.Resources[0].APIResources, metav1.APIResource{Name: "deploiments", Kind: "Deploiment"})
	b.after(kindsFresh)
	if got := b.maps(t, "Deploiment"); got != "deploiments root" {
		t.Errorf("a kind that came maps to %s", got)
	}
}

// If the API server does not answer, the objects that name the group do not all ask
// it one after the other.
func TestGroupThatDoesNotAnswer(t *testing.T) {
	b := newKindsBench()
	b.server.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		b.after(KindsTimeout)
		return true, nil, apierrors.NewTimeoutError("no answer", 0)
	})
	ask := func() error {
		_, err := b.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1")
		return err
	}
	for range 10 {
		if err := ask(); !apierrors.IsTimeout(err) {
			t.Fatalf("the error is %v", err)
		}
	}
	if b.asked() != 1 {
		t.Errorf("the API server was asked %d times", b.asked())
	}
	b.after(kindsBackoff*KindsTimeout - time.Second)
	if err := ask(); err == nil || b.asked() != 1 {
		t.Errorf("after a while, the error is %v, and the API server was asked %d times", err, b.asked())
	}
	b.server.ReactionChain = nil
	b.after(time.Second)
	if got := b.maps(t, "Deployment"); got != "deployments namespace" {
		t.Errorf("a Deployment is %s when the API server answers", got)
	}
}

// A sign that the API server answers again, such as a watch that works again, has it
// asked immediately.
func TestGroupThatChangesIsAskedAfterAFailure(t *testing.T) {
	b := newKindsBench()
	b.server.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
		b.after(KindsTimeout)
		return true, nil, apierrors.NewTimeoutError("no answer", 0)
	})
	if _, err := b.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1"); !apierrors.IsTimeout(err) {
		t.Fatalf("the error is %v", err)
	}
	b.server.ReactionChain = nil
	b.after(time.Second)
	b.Changed("apps")
	if got := b.maps(t, "Deployment"); got != "deployments namespace" {
		t.Errorf("a Deployment is %s when the API server answers", got)
	}
}

// Memory is bounded, however many versions objects name that are not served.
func TestMissingVersionsAreForgotten(t *testing.T) {
	b := newKindsBench()
	for i := range 2 * maxServed {
		if _, err := b.RESTMapping(schema.GroupKind{Group: fmt.Sprintf("g%d.example.org", i), Kind: "Gadget"}, "v1"); !meta.IsNoMatchError(err) {
			t.Fatal(err)
		}
	}
	if len(b.served) > maxServed {
		t.Errorf("%d versions are remembered", len(b.served))
	}
	if got := b.maps(t, "Deployment"); got != "deployments namespace" {
		t.Errorf("a Deployment is %s", got)
	}
}

// A client keeps its own mappings: it is created again when a mapping changes.
func TestClientFollowsKinds(t *testing.T) {
	b := newKindsBench()
	use := func(want int) {
		t.Helper()
		b.maps(t, "Deployment")
		if _, err := b.current(); err != nil {
			t.Fatal(err)
		}
		if b.clients != want {
			t.Errorf("%d clients were made, want %d", b.clients, want)
		}
	}
	use(1)
	b.Changed("apps")
	b.after(time.Millisecond)
	use(1)
	b.server.Resources = nil
	b.after(kindsFresh)
	use(2)
}

// A watch shows what it has listed, and nothing else.
func TestShows(t *testing.T) {
	b := newWatchBench(t)
	becomesTrue(t, "the watch shows the object", func() bool { return b.Shows(configMaps, "shop", "settings") })
	for name, shown := range map[string]bool{
		"another name":      b.Shows(configMaps, "shop", "web"),
		"another namespace": b.Shows(configMaps, "bank", "settings"),
		"another kind":      b.Shows(configMaps.GroupVersion().WithResource("secrets"), "shop", "settings"),
	} {
		if shown {
			t.Errorf("it shows an object of %s", name)
		}
	}
	b.Forget(b.user)
	if b.Shows(configMaps, "shop", "settings") {
		t.Error("it shows an object of a kind that is no longer watched")
	}
}
