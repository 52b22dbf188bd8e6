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
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

func keyOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func configMapOf(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// opened opens a watch of ConfigMaps.
func opened(t *testing.T, server *apiserver.Server, set *kubernetes.Clientset, options metav1.ListOptions) (*apiserver.Stream, watch.Interface) {
	t.Helper()
	result := make(chan watch.Interface, 1)
	go func() {
		watching, err := set.CoreV1().ConfigMaps("shop").Watch(t.Context(), options)
		if err != nil {
			t.Error(err)
		}
		result <- watching
	}()
	only(t, server).Serve()
	watching := <-result
	streams := server.Streams()
	if len(streams) != 1 {
		t.Fatalf("%d watches are open", len(streams))
	}
	return streams[0], watching
}

// received returns the events that a client has got, and whether the watch has ended.
func received(watching watch.Interface) []string {
	events := []string{}
	for {
		synctest.Wait()
		select {
		case event, more := <-watching.ResultChan():
			if !more {
				return append(events, "end")
			}
			name := ""
			if object, err := meta.Accessor(event.Object); err == nil {
				name = object.GetName()
			} else if status, ok := event.Object.(*metav1.Status); ok {
				name = fmt.Sprint(status.Code, " ", status.Reason)
			}
			events = append(events, fmt.Sprintf("%s %s", event.Type, name))
		default:
			return events
		}
	}
}

func expect(t *testing.T, what string, watching watch.Interface, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), received(watching)); diff != "" {
		t.Errorf("%s, events (-want +got):\n%s", what, diff)
	}
}

func now(server *apiserver.Server) string { return strconv.FormatInt(server.ResourceVersion(), 10) }

// TestDelivery expects events when they are delivered, and in order.
func TestDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		user := clientOf(t, server, "user")
		create(t, user, configMapOf("a"))
		stream, watching := opened(t, server, set, metav1.ListOptions{ResourceVersion: "0", AllowWatchBookmarks: true})
		create(t, user, configMapOf("b"))
		if err := user.Delete(t.Context(), configMapOf("a")); err != nil {
			t.Fatal(err)
		}
		if stream.Waiting() != 3 {
			t.Errorf("%d events wait, want 3", stream.Waiting())
		}
		expect(t, "before the delivery", watching)
		stream.Deliver(2)
		expect(t, "after two", watching, "ADDED a", "ADDED b")
		stream.Bookmark()
		stream.Deliver(10)
		expect(t, "after all", watching, "DELETED a", "BOOKMARK ")
		create(t, user, configMapOf("c"))
		stream.Cut()
		expect(t, "after the cut", watching, "end")
		if len(server.Streams()) != 0 {
			t.Error("the watch is still open")
		}
	})
}

// TestExpire ends watches with 410 Gone.
func TestExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		user, old := clientOf(t, server, "user"), now(server)
		create(t, user, configMapOf("a"))
		stream, watching := opened(t, server, set, metav1.ListOptions{ResourceVersion: old})
		stream.Expire()
		expect(t, "after the watch has expired", watching, "ERROR 410 Expired", "end")

		_, watching = opened(t, server, set, metav1.ListOptions{ResourceVersion: old})
		server.Streams()[0].Deliver(1)
		expect(t, "with the history", watching, "ADDED a")
		server.Streams()[0].End()
		expect(t, "at the end", watching, "end")

		server.Compact()
		stream, watching = opened(t, server, set, metav1.ListOptions{ResourceVersion: old})
		stream.Deliver(2)
		expect(t, "without the history", watching, "ERROR 410 Expired", "end")
		stream, watching = opened(t, server, set, metav1.ListOptions{ResourceVersion: now(server)})
		create(t, user, configMapOf("b"))
		stream.Deliver(1)
		expect(t, "after the compaction", watching, "ADDED b")
		server.Close()
		expect(t, "after all", watching, "end")
	})
}

// TestStopWatching expects a watch that its client ends to be gone.
func TestStopWatching(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		_, watching := opened(t, server, set, metav1.ListOptions{})
		watching.Stop()
		synctest.Wait()
		if open := server.Streams(); len(open) != 0 {
			t.Errorf("open watches: %v", open)
		}
	})
}

// TestLostWatch loses the answer to a request for a watch.
func TestLostWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, set := waiting(t)
		result := make(chan error, 1)
		go func() {
			_, err := set.CoreV1().ConfigMaps("shop").Watch(t.Context(), metav1.ListOptions{})
			result <- err
		}()
		only(t, server).ServeAndDrop()
		// The client asks again by itself.
		<-time.After(time.Minute)
		only(t, server)
		if open := server.Streams(); len(open) != 0 {
			t.Errorf("open watches: %v", open)
		}
		server.Close()
		if err := <-result; err == nil {
			t.Error("the client got no error")
		}
	})
}
