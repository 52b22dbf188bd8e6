//go:build e2e_helm

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

package helm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// release is a namespace of the host cluster with a release of the chart.
type release struct {
	t *testing.T
	// namespace admits only restricted Pods.
	namespace string
	name      string

	mu sync.Mutex
	// pods are all Pods that ever existed, in the order of their creation. Pods of Jobs
	// are deleted soon.
	pods []*corev1.Pod
}

// chartFolder returns the folder of the current chart.
func chartFolder() string { return filepath.Join(bed.Root, "charts", "direct-propagation") }

func newRelease(t *testing.T) *release {
	t.Helper()
	r := &release{t: t, namespace: "karmada-" + rand.String(5), name: "kd"}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: r.namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := host.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	watching, err := host.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(r.namespace))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for event := range watching.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == "ADDED" {
				r.mu.Lock()
				r.pods = append(r.pods, pod)
				r.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		watching.Stop()
		if t.Failed() {
			events, _ := r.run("kubectl", "get", "all,events")
			t.Logf("namespace %s of the host cluster:\n%s", r.namespace, events)
		}
		if _, err := r.run(helm3, "uninstall", r.name, "--ignore-not-found", "--wait"); err != nil {
			t.Error(err)
		}
		if err := host.Delete(context.Background(), namespace); err != nil {
			t.Error(err)
		}
	})
	return r
}

// hasSecret stores a kubeconfig in a Secret, as an installation of Karmada would.
func (r *release) hasSecret(name, key string, content []byte) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Data: map[string][]byte{key: content}}
	if err := host.Create(r.t.Context(), secret); err != nil {
		r.t.Fatal(err)
	}
}

// adminKubeconfig returns the kubeconfig that every installation of Karmada stores
// in a Secret.
func adminKubeconfig(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(bed.Fleet.Kubeconfig("karmada"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// run runs a program of the fleet against the host cluster.
func (r *release) run(program string, arguments ...string) (string, error) {
	return run(r.t, program, append(arguments, "--kubeconfig", bed.Fleet.Kubeconfig("host"), "--namespace", r.namespace)...)
}

// run runs a program of the fleet, or a program given by its absolute path.
func run(t *testing.T, program string, arguments ...string) (string, error) {
	path := program
	if !filepath.IsAbs(path) {
		path = bed.Fleet.Tool(program)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), path, arguments...)
	command.Env = []string{"HOME=" + filepath.Join(bed.Fleet.Dir, "helm"), "PATH=" + os.Getenv("PATH")}
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	if err := command.Run(); err != nil {
		return printed.String(), fmt.Errorf("%s %s: %w\n%s", program, strings.Join(arguments, " "), err, printed.String())
	}
	return printed.String(), nil
}

// helm runs helm and returns its output.
func (r *release) helm(arguments ...string) string {
	r.t.Helper()
	printed, err := r.run(helm3, arguments...)
	if err != nil {
		r.t.Fatal(err)
	}
	return printed
}

// registry is the name of a registry that does not exist. Images are built locally.
const registry = "registry.example.org"

// onLoopback returns values that make Pods unreachable from other machines. Each
// call chooses different ports, for Pods that run at the same time.
func onLoopback(t *testing.T) []string {
	t.Helper()
	return []string{"--set", "image.registry=" + registry, "--set", "listenAddress=127.0.0.1", "--set", "health.port=" + freePort(t), "--set", "metrics.port=" + freePort(t)}
}

func freePort(t *testing.T) string {
	t.Helper()
	address, err := machine.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address) // it has a port
	return port
}

// installs installs a chart, waits as users do, and returns helm's output.
func (r *release) installs(chart string, values ...string) string {
	r.t.Helper()
	return r.helm(slices.Concat([]string{"install", r.name, chart, "--wait", "--timeout", "2m"}, onLoopback(r.t), sets(values))...)
}

func sets(values []string) []string {
	arguments := []string{}
	for _, value := range values {
		arguments = append(arguments, "--set", value)
	}
	return arguments
}

// jobPods waits until Jobs have created count Pods in total, and returns these Pods.
func (r *release) jobPods(count int) []*corev1.Pod {
	r.t.Helper()
	var found []*corev1.Pod
	eventually(r.t, fmt.Sprintf("%d Pods of Jobs were created", count), func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		found = slices.DeleteFunc(slices.Clone(r.pods), func(pod *corev1.Pod) bool {
			return len(pod.OwnerReferences) == 0 || pod.OwnerReferences[0].Kind != "Job"
		})
		if len(found) != count {
			return fmt.Errorf("there were %d", len(found))
		}
		return nil
	})
	return found
}

// currentPods waits until the Deployment is rolled out in the host cluster, and
// returns its Pods.
func (r *release) currentPods() []*corev1.Pod {
	r.t.Helper()
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: r.namespace, Name: r.name + "-direct-propagation"}
	current := []*corev1.Pod{}
	eventually(r.t, "the Deployment is rolled out", func(ctx context.Context) error {
		if err := host.Get(ctx, key, deployment); err != nil {
			return err
		}
		pods := &corev1.PodList{}
		if err := host.List(ctx, pods, client.InNamespace(r.namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		current = current[:0]
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.DeletionTimestamp == nil {
				current = append(current, pod)
			}
		}
		if len(current) != int(*deployment.Spec.Replicas) || deployment.Status.ReadyReplicas != *deployment.Spec.Replicas {
			return fmt.Errorf("%d Pods, status %+v", len(current), deployment.Status)
		}
		return nil
	})
	return current
}

// startsOne starts one of the replicas. The other would be identical and use the
// same ports.
func (r *release) startsOne() *runningPod {
	r.t.Helper()
	pods := r.currentPods()
	if len(pods) != 2 {
		r.t.Fatalf("there are %d replicas, want 2", len(pods))
	}
	running := prepare(r.t, pods[0])
	running.starts()
	return running
}

// previousChart returns the chart in its previous version, from the history of the
// repository.
func previousChart(t *testing.T) (folder, version string) {
	t.Helper()
	git := func(arguments ...string) ([]byte, error) {
		command := exec.CommandContext(t.Context(), "git", arguments...)
		command.Dir = bed.Root
		return command.Output()
	}
	present, err := os.ReadFile(filepath.Join(chartFolder(), "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	commits, err := git("log", "--format=%H", "--", "charts/direct-propagation/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, commit := range strings.Fields(string(commits)) {
		then, err := git("show", commit+":charts/direct-propagation/Chart.yaml")
		if err != nil || versionOf(then) == versionOf(present) {
			continue
		}
		archive, err := git("archive", commit, "charts/direct-propagation")
		if err != nil {
			t.Fatal(err)
		}
		files, err := untar(bytes.NewReader(archive))
		if err != nil {
			t.Fatal(err)
		}
		return writeChart(t, files), versionOf(then)
	}
	t.Fatalf("the history of the repository has no chart before %s; is this a shallow clone?", versionOf(present))
	return "", ""
}

func writeChart(t *testing.T, files map[string][]byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		if strings.HasSuffix(name, "/") || name == "pax_global_header" {
			continue
		}
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "charts", "direct-propagation")
}

func versionOf(chart []byte) string {
	for line := range strings.Lines(string(chart)) {
		if version, found := strings.CutPrefix(line, "version: "); found {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// startRegistry starts a registry and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	program := bed.File("registry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./registry")
	build.Dir = filepath.Join(bed.Root, "hack", "image")
	if printed, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the registry: %v\n%s", err, printed)
	}
	registry := exec.CommandContext(context.WithoutCancel(t.Context()), program)
	registry.Stderr = t.Output()
	input, err := registry.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := registry.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(input.Close(), registry.Wait()); err != nil {
			t.Errorf("the registry exited with %v", err)
		}
	})
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the registry prints no address: %v", err)
	}
	return strings.TrimSpace(address)
}
