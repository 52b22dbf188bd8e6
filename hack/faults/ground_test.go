//go:build faults

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

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

const (
	// patience is how long anything that must happen may take on a busy machine.
	// Where how long it takes is the point, a test measures and bounds it.
	patience = 2 * time.Minute
	// glance is the pause between two looks at what cannot be watched.
	glance = 50 * time.Millisecond
	// fleetName is the fleet that the tests bring up for themselves.
	fleetName = "faults"
	// fleetMembers are its members: two that Karmada pushes to and one that
	// pulls, so that with one of each gone there is one to compare with.
	fleetMembers = "member1=push,member2=pull,member3=push"
)

// Processes of the fleet.
const (
	karmadaControllers = "karmada-controller-manager"
	aggregatedServer   = "karmada-aggregated-apiserver"
	karmadaServer      = "karmada-apiserver"
	agent2             = "member2-karmada-agent"
)

// What all tests share.
var (
	ground  *fleet
	manager *controller
	scheme  = runtime.NewScheme()
	// karmada is the control plane.
	karmada client.WithWatch
	config  *rest.Config

	member1, member2, member3 = &member{Name: "member1"}, &member{Name: "member2"}, &member{Name: "member3"}
	members                   = []*member{member1, member2, member3}

	propagations, works, clusters *chronicle
)

// member is a member cluster.
type member struct {
	Name string
	client.Client
}

// fleet is a fleet of hack/fleet.
type fleet struct {
	root    string
	program string
	dir     string
	// own: the tests brought it up, and take it down.
	own bool
}

// bringUp makes all that tests share. What was made before something failed is
// there to be taken down.
func bringUp(ctx context.Context, out io.Writer) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	ground = &fleet{root: filepath.Dir(string(root))}
	if ground.program, err = ground.build(ctx, "hack/fleet", "fleet", out); err != nil {
		return err
	}
	if ground.dir = os.Getenv("FAULTS_FLEET"); ground.dir == "" {
		ground.own, ground.dir = true, filepath.Join(ground.root, ".fleet", fleetName)
		if err := ground.run(ctx, out, "down"); err != nil {
			return err
		}
		if err := ground.run(ctx, out, "up", "--members", fleetMembers); err != nil {
			return err
		}
	}
	if !filepath.IsAbs(ground.dir) {
		ground.dir = filepath.Join(ground.root, ground.dir) // go test runs in the package's own folder
	}
	if err := connect(); err != nil {
		return err
	}
	return bringUpController(ctx, out)
}

func connect() (err error) {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1alpha1.Install, configv1alpha1.Install, policyv1alpha1.Install,
		workv1alpha1.Install, workv1alpha2.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	if config, err = ground.configOf("karmada"); err != nil {
		return err
	}
	if karmada, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connecting to Karmada: %w", err)
	}
	for _, m := range members {
		config, err := ground.configOf(m.Name)
		if err != nil {
			return err
		}
		if m.Client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			return fmt.Errorf("connecting to %s: %w", m.Name, err)
		}
	}
	return nil
}

func bringUpController(ctx context.Context, out io.Writer) error {
	program, err := ground.build(ctx, ".", "controller-manager", out)
	if err != nil {
		return err
	}
	kubeconfig := ground.kubeconfig("karmada")
	// The controller has exactly the permissions of its roles.
	own := filepath.Join(ground.root, "bin", "faults", "controller.kubeconfig")
	for _, arguments := range [][]string{{"install-crds"}, {"install-rbac"}, {"write-kubeconfig", "--output", own}} {
		arguments = append(arguments, "--kubeconfig", kubeconfig)
		if output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", arguments[0], err, output)
		}
	}
	following := context.WithoutCancel(ctx)
	for kind, c := range map[client.ObjectList]**chronicle{
		&propagationv1alpha1.DirectPropagationList{}: &propagations,
		&workv1alpha1.WorkList{}:                     &works,
		&clusterv1alpha1.ClusterList{}:               &clusters,
	} {
		if *c, err = follow(following, kind); err != nil {
			return err
		}
	}
	manager = &controller{program: program, kubeconfig: own, logs: filepath.Join(ground.root, "bin", "faults", "controller.log")}
	if err := os.RemoveAll(manager.logs); err != nil {
		return fmt.Errorf("removing an old log: %w", err)
	}
	return manager.start()
}

// takeDown ends all that bringUp began.
func takeDown(out io.Writer) error {
	var errs []error
	if manager != nil {
		errs = append(errs, manager.end(syscall.SIGTERM))
	}
	if ground != nil && ground.own {
		// Whatever ended the tests, the fleet is ended in peace.
		errs = append(errs, ground.run(context.Background(), out, "down"))
	}
	return errors.Join(errs...)
}

// build compiles a program of this repository: the package in a folder of it.
func (f *fleet) build(ctx context.Context, folder, name string, out io.Writer) (string, error) {
	target := "."
	if name == "controller-manager" {
		target = "./cmd/controller-manager"
	}
	program := filepath.Join(f.root, "bin", "faults", name)
	fmt.Fprintf(out, "faults: building %s\n", name)
	command := exec.CommandContext(ctx, "go", "build", "-o", program, target)
	command.Dir = filepath.Join(f.root, folder)
	command.Stdout, command.Stderr = out, out
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("building %s: %w", name, err)
	}
	return program, nil
}

// run runs a command of the fleet program. SIGTERM makes it end what it began.
func (f *fleet) run(ctx context.Context, out io.Writer, arguments ...string) error {
	program := exec.CommandContext(ctx, f.program, append(arguments, "--dir", f.dir)...)
	if f.own {
		program.Args = append(program.Args, "--name", fleetName)
	}
	program.Dir = filepath.Dir(f.program)
	program.Stdout, program.Stderr = out, out
	program.Cancel = func() error { return program.Process.Signal(syscall.SIGTERM) }
	program.WaitDelay = time.Minute
	if err := program.Run(); err != nil {
		return fmt.Errorf("fleet %s: %w", strings.Join(arguments, " "), errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// do runs a command of the fleet program in a test, and returns how long it
// took.
func (f *fleet) do(t *testing.T, arguments ...string) time.Duration {
	t.Helper()
	began, output := time.Now(), &bytes.Buffer{}
	if err := f.run(context.Background(), output, arguments...); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return time.Since(began)
}

// stops stops processes until the end of the test, at the latest, and returns
// when they had ended.
func stops(t *testing.T, names ...string) time.Time {
	t.Helper()
	t.Cleanup(func() {
		starts(t, names...)
		allReady(t)
	})
	ground.do(t, append([]string{"stop"}, names...)...)
	return time.Now()
}

// crashes stops processes as a power cut does.
func crashes(t *testing.T, names ...string) time.Time {
	t.Helper()
	t.Cleanup(func() {
		starts(t, names...)
		allReady(t)
	})
	ground.do(t, append([]string{"stop", "--signal", "KILL"}, names...)...)
	return time.Now()
}

// starts starts processes, and returns when they answered.
func starts(t *testing.T, names ...string) time.Time {
	t.Helper()
	ground.do(t, append([]string{"start"}, names...)...)
	return time.Now()
}

// allReady waits until Karmada calls every member Ready.
func allReady(t *testing.T) {
	t.Helper()
	for _, m := range members {
		if _, err := clusters.await(context.Background(), time.Time{}, 3*time.Minute, func(seen) error { return isReady(m.Name) }); err != nil {
			t.Errorf("%s is not Ready again: %v", m.Name, err)
		}
	}
}

// isReady tells why Karmada does not call a cluster Ready now.
func isReady(name string) error {
	cluster, ok := clusters.now(client.ObjectKey{Name: name}).(*clusterv1alpha1.Cluster)
	if !ok {
		return fmt.Errorf("there is no Cluster %s", name)
	}
	if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
		return fmt.Errorf("the Cluster %s is not Ready: %+v", name, cluster.Status.Conditions)
	}
	return nil
}

// readiness awaits the first time since a moment that a cluster's Ready is,
// or is not, True.
func readiness(t *testing.T, name string, since time.Time, limit time.Duration, want bool) time.Time {
	t.Helper()
	event, err := clusters.await(t.Context(), since, limit, func(event seen) error {
		cluster, _ := event.Object.(*clusterv1alpha1.Cluster)
		if cluster.Name != name {
			return fmt.Errorf("%s: %w", name, errElsewhere)
		}
		if is := meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); is != want {
			return fmt.Errorf("Ready of %s is %v", name, is)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return event.At
}

func (f *fleet) kubeconfig(plane string) string { return filepath.Join(f.dir, plane+".kubeconfig") }

// configOf tells how to reach a plane, with no limit of our own: what is
// observed should be observed at once.
func (f *fleet) configOf(plane string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig(plane))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", plane, err)
	}
	config.QPS = -1
	config.Timeout = 0
	return config, nil
}

// awaits looks closely until check returns nil, and returns when that was, or
// its last complaint.
func awaits(ctx context.Context, limit time.Duration, check func(context.Context) error) (time.Time, error) {
	var complaint error
	err := wait.PollUntilContextTimeout(ctx, glance, limit, true, func(ctx context.Context) (bool, error) {
		if err := manager.fault(); err != nil {
			return false, err
		}
		if err := check(ctx); err != nil {
			if ctx.Err() == nil {
				complaint = err
			}
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("waited %v: %w", limit, errors.Join(err, complaint))
	}
	return time.Now(), nil
}

// looksFor looks at members for something, from now on and at all of them at
// once, and tells of each when it was there.
func looksFor(where []*member, limit time.Duration, check func(context.Context, *member) error) func(*testing.T, *member) time.Time {
	type found struct {
		at  time.Time
		err error
	}
	results := map[*member]chan found{}
	for _, m := range where {
		result := make(chan found, 1)
		results[m] = result
		go func() {
			at, err := awaits(context.Background(), limit, func(ctx context.Context) error { return check(ctx, m) })
			result <- found{at: at, err: err}
		}()
	}
	return func(t *testing.T, m *member) time.Time {
		t.Helper()
		result := <-results[m]
		if result.err != nil {
			t.Fatalf("%s: %v", m.Name, result.err)
		}
		return result.at
	}
}

// throughout checks without a pause that something stays as it is.
func throughout(t *testing.T, duration time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), glance, duration, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() != nil {
			return false, nil // what was cut off says nothing
		}
		return false, err
	})
	if !wait.Interrupted(err) {
		t.Fatalf("for %v, %s: %v", duration, what, err)
	}
}

// eventOf awaits an Event on an object.
func eventOf(t *testing.T, namespace, name, reason string) string {
	t.Helper()
	note := ""
	_, err := awaits(t.Context(), patience, func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := karmada.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		at := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Name == name && e.Reason == reason })
		if at < 0 {
			return fmt.Errorf("no Event %s on %s", reason, name)
		}
		note = list.Items[at].Note
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return note
}

// itemsOf returns the objects of a list.
func itemsOf(list client.ObjectList) []client.Object {
	extracted, err := meta.ExtractList(list)
	if err != nil {
		panic(err) // a list of anything else than objects is a mistake in the test
	}
	items := make([]client.Object, 0, len(extracted))
	for _, item := range extracted {
		object, _ := item.(client.Object)
		items = append(items, object)
	}
	return items
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
