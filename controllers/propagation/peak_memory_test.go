//go:build integration

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

package propagation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/cached"
	"github.com/karmada-direct/karmada-direct/controllers/customize"
	"github.com/karmada-direct/karmada-direct/controllers/dependency"
)

// peakLimit is the maximum memory, in bytes, that a reconciler may use in the cases
// below.
const peakLimit = 256 << 20

// playServer makes a process of this test binary play the API server, so that the
// memory of the server is not measured.
const playServer = "PROPAGATION_TEST_PLAYS_SERVER"

// TestPeakMemory measures the memory of concurrent reconciles. The garbage
// collector runs as in production, and the client encodes, sends and decodes as in
// production. The cache counts.
func TestPeakMemory(t *testing.T) {
	if os.Getenv(playServer) != "" {
		serveWorks(t)
		return
	}
	t.Run("1 MiB on 100 clusters that all differ, 16 objects at once", func(t *testing.T) {
		clusters := clustersNamed(scaled(100))
		b := newMemoryBench(t, clusters, nil)
		for i := range 16 {
			object := b.addObject(fmt.Sprintf("large-%d", i), propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "ConfigMap"}, nil)
			for _, cluster := range clusters {
				overriders := patch(policyv1alpha1.OverriderOpAdd, "/data/cluster", strconv.Quote(cluster))
				object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: cluster, Overriders: overriders})
			}
		}
		b.reconcileAll(t, 16*len(clusters))
	})
	t.Run("a registry on 5,000 clusters, 16 objects at once", func(t *testing.T) {
		clusters := clustersNamed(scaled(5000))
		policy := policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "mirror", UID: "policy", ResourceVersion: "1"}}
		policy.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: registry()}}
		b := newMemoryBench(t, clusters, []policyv1alpha1.ClusterOverridePolicy{policy})
		// One object gets its Works. Those of the others are refused, so that the
		// cache of 80,000 Works does not count.
		for i := range 16 {
			annotations := map[string]string{}
			if i > 0 {
				annotations["refused"] = "true"
			}
			b.addObject(fmt.Sprintf("web-%d", i), propagationv1alpha1.ResourceReference{APIVersion: "apps/v1", Kind: "Deployment"}, annotations).Spec.ClusterSelector = &metav1.LabelSelector{}
		}
		b.reconcileAll(t, len(clusters))
	})
}

// full measures the cases with all their clusters, which takes minutes. An eighth
// is enough to exceed the limit too if manifests are held until the end of a
// reconcile.
var full = flag.Bool("memory.full", false, "measure memory with all clusters, not with an eighth of them")

func scaled(clusters int) int {
	if *full {
		return clusters
	}
	return clusters / 8
}

func clustersNamed(count int) []string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("member-%04d", i)
	}
	return names
}

// memoryBench is a reconciler whose cache is in memory and whose writes of Works
// go over the network.
type memoryBench struct {
	*Reconciler

	cache *memoryCache
}

// memoryCache stands in for a manager's cache, and stores the few objects that are
// not Works.
type memoryCache struct {
	client.Client // the way to the server

	mu       sync.Mutex
	objects  map[types.NamespacedName]*propagationv1alpha1.DirectPropagation
	clusters map[string]*clusterv1alpha1.Cluster
	order    []string
	policies []policyv1alpha1.ClusterOverridePolicy
	created  int
}

func newMemoryBench(t *testing.T, clusters []string, policies []policyv1alpha1.ClusterOverridePolicy) *memoryBench {
	t.Helper()
	kinds := kruntime.NewScheme()
	for _, add := range []func(*kruntime.Scheme) error{
		scheme.AddToScheme, clusterv1alpha1.Install, policyv1alpha1.Install, workv1alpha1.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersion(workv1alpha1.GroupVersion).WithKind("Work"), meta.RESTScopeNamespace)
	remote, err := client.New(&rest.Config{Host: startServer(t), QPS: -1}, client.Options{Scheme: kinds, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	cache := &memoryCache{
		Client: remote, policies: policies, order: clusters, clusters: map[string]*clusterv1alpha1.Cluster{},
		objects: map[types.NamespacedName]*propagationv1alpha1.DirectPropagation{},
	}
	compact := cached.NewClusters()
	for _, name := range clusters {
		cache.clusters[name] = memberWithAPIs(name)
		if _, err := compact.Compact(cache.clusters[name]); err != nil {
			t.Fatal(err)
		}
	}
	discovery := served()
	discovery.Resources[1].APIResources = append(discovery.Resources[1].APIResources, metav1.APIResource{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true})
	r := &Reconciler{
		Kind: "DirectPropagation", Client: cache, Live: remote, Mapper: mapper, Interpreter: &customize.Interpreter{ResourceInterpreter: nativeInterpreter{native.NewDefaultInterpreter()}},
		Resources: cached.NewWatches(t.Context(), metadatafake.NewSimpleMetadataClient(kinds), func(schema.GroupVersionResource, types.NamespacedName, bool) {}, nobody),
		Recorder:  events.NewFakeRecorder(1000), Clock: clock.RealClock{},
		writers: make(chan struct{}, 32), ledger: cached.NewLedger(clock.RealClock{}),
		gauges: newGauges("DirectPropagation"), requirements: dependency.NewRequirements(), backlog: &backlog{},
		works:   func(string) ([]client.Object, error) { return nil, nil },
		objects: func(string) ([]client.Object, error) { return nil, nil },
		reviews: newReviews(cache, clock.RealClock{}),
		Kinds:   cached.NewKinds(mapper, discovery, clock.RealClock{}, func(meta.RESTMapper) (client.Client, error) { return remote, nil }),
	}
	r.Customizer = customize.New(cache, r.Interpreter, nil)
	return &memoryBench{Reconciler: r, cache: cache}
}

// memberWithAPIs returns a Cluster with as many kinds as a Kubernetes cluster
// serves.
func memberWithAPIs(name string) *clusterv1alpha1.Cluster {
	member := memberCluster(name)
	for group := range 25 {
		enablement := clusterv1alpha1.APIEnablement{GroupVersion: fmt.Sprintf("group-%d.example.org/v1", group)}
		for kind := range 3 {
			enablement.Resources = append(enablement.Resources, clusterv1alpha1.APIResource{Name: fmt.Sprintf("resources%d", kind), Kind: fmt.Sprintf("Resource%d", kind)})
		}
		member.Status.APIEnablements = append(member.Status.APIEnablements, enablement)
	}
	return member
}

func (b *memoryBench) addObject(name string, reference propagationv1alpha1.ResourceReference, annotations map[string]string) *propagationv1alpha1.DirectPropagation {
	object := webPropagation()
	object.Name, object.UID, object.Annotations = name, types.UID(name), annotations
	object.Finalizers = []string{propagationv1alpha1.CleanupFinalizer}
	reference.Name = name
	object.Spec = propagationv1alpha1.PropagationSpec{Resource: reference}
	b.cache.objects[types.NamespacedName{Namespace: web.Namespace, Name: name}] = object
	return object
}

// reconcileAll reconciles all objects concurrently. It checks how many Works this
// creates and how much memory it takes.
func (b *memoryBench) reconcileAll(t *testing.T, works int) {
	t.Helper()
	runtime.GC()
	before := held()
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		highest := uint64(0)
		for {
			select {
			case <-stop:
				peak <- highest
				return
			case <-time.After(time.Millisecond):
				highest = max(highest, held())
			}
		}
	}()
	var group sync.WaitGroup
	for key := range b.cache.objects {
		group.Go(func() {
			if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Errorf("reconciling %s: %v", key.Name, err)
			}
		})
	}
	group.Wait()
	close(stop)
	highest := <-peak
	t.Logf("%d Works created; %d MiB before, %d MiB at the peak", b.cache.created, before>>20, highest>>20)
	if b.cache.created != works {
		t.Errorf("%d Works were created, want %d", b.cache.created, works)
	}
	if highest > peakLimit {
		t.Errorf("%d MiB at the peak, want no more than %d MiB", highest>>20, peakLimit>>20)
	}
}

// held returns how much memory, in bytes, the process has from the operating system
// and has not given back.
func held() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// Get reads from memory. Like the manager's cache, it does not copy Clusters
// deeply.
func (c *memoryCache) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch object := object.(type) {
	case *clusterv1alpha1.Cluster:
		*object = *c.clusters[key.Name]
		return nil
	case *propagationv1alpha1.DirectPropagation:
		c.objects[key].DeepCopyInto(object)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List reads from memory.
func (c *memoryCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *clusterv1alpha1.ClusterList:
		list.Items = make([]clusterv1alpha1.Cluster, 0, len(c.order))
		for _, name := range c.order {
			list.Items = append(list.Items, *c.clusters[name])
		}
	case *policyv1alpha1.ClusterOverridePolicyList:
		list.Items = c.policies
	}
	return nil
}

// Create sends a Work, unless the Works of its object are refused.
func (c *memoryCache) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	owner := object.GetAnnotations()[propagationv1alpha1.OwnerNameAnnotation]
	c.mu.Lock()
	refused := c.objects[types.NamespacedName{Namespace: web.Namespace, Name: owner}].Annotations["refused"] != ""
	c.mu.Unlock()
	if refused {
		return apierrors.NewConflict(workv1alpha1.Resource("works"), object.GetName(), nil)
	}
	if err := c.Client.Create(ctx, object, options...); err != nil {
		return err //nolint:wrapcheck // a test double passes errors through
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.created++
	return nil
}

// Status writes statuses to memory.
func (c *memoryCache) Status() client.SubResourceWriter { return memoryStatus{c} }

type memoryStatus struct{ *memoryCache }

func (s memoryStatus) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[client.ObjectKeyFromObject(object)].Status = *object.(*propagationv1alpha1.DirectPropagation).Status.DeepCopy() //nolint:forcetypeassert // nothing else has a status here
	return nil
}

func (memoryStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

func (memoryStatus) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return nil
}

func (memoryStatus) Apply(context.Context, kruntime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return nil
}

// startServer starts a process that plays the API server, and returns its address.
func startServer(t *testing.T) string {
	t.Helper()
	server := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPeakMemory$") //nolint:gosec // this very program
	server.Env = append(os.Environ(), playServer+"=true")
	input, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = server.Wait()
	})
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	return strings.TrimSpace(address)
}

// serveWorks plays the API server until its input ends: it returns any resource
// that is requested, and accepts any Work.
func serveWorks(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	templates := map[string][]byte{"configmaps": largeConfigMap(t), "deployments": ordinaryDeployment(t)}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		path := strings.Split(request.URL.Path, "/")
		w.Header().Set("Content-Type", "application/json")
		if request.Method == http.MethodGet {
			_, _ = w.Write(bytes.ReplaceAll(templates[path[len(path)-2]], []byte("NAME"), []byte(path[len(path)-1])))
			return
		}
		work, _ := io.ReadAll(request.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(bytes.Replace(work, []byte(`"metadata":{`), []byte(`"metadata":{"uid":"work","resourceVersion":"7","generation":1,`), 1))
	})}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Printf("http://%s\n", listener.Addr()) //nolint:forbidigo // the answer to the process that started this one
	_ = server.Serve(listener)
}

// largeConfigMap returns a ConfigMap as large as the API server accepts, about 1
// MiB.
func largeConfigMap(t *testing.T) []byte {
	t.Helper()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: "NAME", UID: "NAME", ResourceVersion: "5"}, Data: map[string]string{}}
	settings.APIVersion, settings.Kind = "v1", "ConfigMap"
	for i := range 1000 {
		settings.Data[fmt.Sprintf("key-%04d", i)] = strings.Repeat("abcdefgh", 128)
	}
	return encoded(t, settings)
}

// ordinaryDeployment returns a Deployment that has two containers with some
// settings.
func ordinaryDeployment(t *testing.T) []byte {
	t.Helper()
	deployment := webDeployment()
	deployment.APIVersion, deployment.Kind = "apps/v1", "Deployment"
	deployment.Name, deployment.UID, deployment.ResourceVersion = "NAME", "NAME", "5"
	container := deployment.Spec.Template.Spec.Containers[0]
	for i := range 30 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: strings.Repeat("value ", 10)})
	}
	sidecar := container
	sidecar.Name, sidecar.Image = "sidecar", "registry.example.org/team/sidecar:2"
	deployment.Spec.Template.Spec.Containers = []corev1.Container{container, sidecar}
	return encoded(t, deployment)
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
