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

package agents

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"
)

func agentsOf(t *testing.T, objects ...client.Object) *Agents {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1alpha1.Install, workv1alpha1.Install} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	server := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&clusterv1alpha1.Cluster{}).WithObjects(objects...).Build()
	return &Agents{Client: server, Clusters: []string{"played-0001"}}
}

// A namespace that an earlier test has left, and that is being deleted, is none to which
// the controller could write.
func TestJoinWaitsForTheNamespace(t *testing.T) {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "karmada-es-played-0001", Finalizers: []string{"example.org/slow"}}}
	played := agentsOf(t, space)
	if err := played.Client.Delete(t.Context(), space.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	go func() { joined <- played.Join(t.Context()) }()
	select {
	case err := <-joined:
		t.Fatalf("joined although the namespace is being deleted: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if err := played.Client.Patch(t.Context(), space, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	if err := played.Client.Get(t.Context(), client.ObjectKeyFromObject(space), space); err != nil || space.DeletionTimestamp != nil {
		t.Errorf("the namespace: %+v, %v", space.ObjectMeta, err)
	}
}

// A Work that is left would keep the namespace forever.
func TestLeaveReleasesWorks(t *testing.T) {
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-played-0001", Name: "left", Finalizers: []string{util.ExecutionControllerFinalizer}}}
	played := agentsOf(t, work)
	if err := played.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := played.Client.Get(t.Context(), client.ObjectKeyFromObject(work), work); err != nil || len(work.Finalizers) > 0 {
		t.Errorf("the Work has the finalizers %v, %v", work.Finalizers, err)
	}
}
