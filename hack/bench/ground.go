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

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

const (
	// longPatience is the time limit for anything that is measured.
	longPatience = 5 * time.Minute
	// workers is how many objects are written or reconciled concurrently, and writers
	// is how many Works. They are the defaults of the controller, and the plain client
	// uses them too.
	workers, writers = 16, 32
	// realSpace is propagated to real members, and playedSpace to simulated clusters.
	// Karmada creates no Works for playedSpace itself.
	realSpace, playedSpace = "bench", "bench-played"
)

// The names of processes of the fleet.
const (
	karmadaServer     = "karmada-apiserver"
	karmadaManager    = "karmada-controller-manager"
	karmadaScheduler  = "karmada-scheduler"
	aggregatedServer  = "karmada-aggregated-apiserver"
	controllerManager = "controller-manager" // ours
)

// limits is the configuration of Karmada's own controllers.
type limits string

const (
	limitsDefault limits = "default"
	limitsRaised  limits = "raised"
	limitsOff     limits = "off" // not running
)

// raised are flags that raise Karmada's limits.
var raised = map[string][]string{
	karmadaManager: {
		"--kube-api-qps=5000", "--kube-api-burst=10000", "--cluster-api-qps=5000", "--cluster-api-burst=10000",
		"--rate-limiter-qps=5000", "--rate-limiter-bucket-size=10000",
		"--concurrent-resource-template-syncs=50", "--concurrent-propagation-policy-syncs=50",
		"--concurrent-resourcebinding-syncs=50", "--concurrent-work-syncs=50",
		"--concurrent-cluster-syncs=50", "--concurrent-namespace-syncs=50",
	},
	karmadaScheduler: {
		"--kube-api-qps=5000", "--kube-api-burst=10000", "--rate-limiter-qps=5000", "--rate-limiter-bucket-size=10000",
	},
}

// ground holds the fleet, the clients and the processes.
type ground struct {
	*options
	progress *progress
	root     string
	fleet    *machine.Fleet
	config   *rest.Config
	http     *http.Client
	client   client.WithWatch
	watcher  *watcher
	arrivals *arrivals // nil if it is not measured when members have something

	limits   limits
	karmada  []*process
	direct   *process
	metrics  string // address of our controller's metrics endpoint
	profiles string // address of its profiling endpoint

	played int      // number of simulated clusters
	agents *process // simulates their agents
}

// newGround starts the fleet. If a later step fails, it also returns what must be
// closed.
func newGround(ctx context.Context, o *options, progress *progress) (*ground, error) {
	root, err := machine.Root(ctx)
	if err != nil {
		return nil, err
	}
	g := &ground{options: o, progress: progress, root: root, limits: limitsDefault}
	progress.say("bringing up fleet %s", o.name)
	if err := g.upFleet(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{g.connect, g.install, g.takeOver} {
		if err := step(ctx); err != nil {
			return g, err
		}
	}
	progress.say("the fleet, the controller program and the CRDs are ready")
	return g, nil
}

func (g *ground) upFleet(ctx context.Context) (err error) {
	program := filepath.Join(g.root, "bin", "bench", "fleet")
	if g.fleet, err = machine.NewFleet(ctx, g.root, g.name, program); err != nil {
		return err
	}
	said := &bytes.Buffer{}
	if err := g.fleet.Up(ctx, said, g.keep, "--members", "member1=push,member2=push"); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

func (g *ground) runFleet(ctx context.Context, arguments ...string) error {
	said := &bytes.Buffer{}
	if err := g.fleet.Run(ctx, said, arguments...); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

// connect creates the clients.
func (g *ground) connect(context.Context) error { return g.connectTo(g.kubeconfig()) }

// connectTo creates the clients for a kubeconfig.
func (g *ground) connectTo(kubeconfig string) (err error) {
	// No rate limit, like our controller.
	if g.config, err = testbed.ConfigFrom(kubeconfig); err != nil {
		return err
	}
	if g.http, err = rest.HTTPClientFor(g.config); err != nil {
		return fmt.Errorf("connecting to the fleet: %w", err)
	}
	if g.client, err = client.NewWithWatch(g.config, client.Options{Scheme: testbed.Scheme}); err != nil {
		return fmt.Errorf("connecting to the fleet: %w", err)
	}
	return nil
}

func (g *ground) kubeconfig() string { return g.fleet.Kubeconfig("karmada") }

func (g *ground) controllerProgram() string { return filepath.Join(g.fleet.Dir, controllerManager) }

// build builds our controller.
func (g *ground) build(ctx context.Context, version, output string) error {
	return machine.BuildController(ctx, g.root, output, "-trimpath", "-ldflags", "-X main.version="+version)
}

// install builds the controller, installs our CRDs, creates the namespaces and
// starts the watcher.
func (g *ground) install(ctx context.Context) error {
	if err := g.build(ctx, "bench", g.controllerProgram()); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, g.controllerProgram(), "install-crds", "--kubeconfig", g.kubeconfig())
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("installing the CustomResourceDefinitions: %w\n%s", err, said)
	}
	for _, space := range []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: realSpace}},
		{ObjectMeta: metav1.ObjectMeta{Name: playedSpace, Labels: map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}}},
	} {
		if err := g.client.Create(ctx, space); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating namespace %s: %w", space.Name, err)
		}
	}
	var err error
	if g.watcher, err = newWatcher(ctx, g); err != nil {
		return err
	}
	// Karmada creates Works for the namespaces. After that, nothing is written.
	return g.quiet(ctx, 2*time.Second)
}

// takeOver stops the fleet's Karmada controllers. The benchmark runs its own
// processes instead, whose flags it can change.
func (g *ground) takeOver(ctx context.Context) error {
	if err := g.runFleet(ctx, "stop", karmadaManager, karmadaScheduler); err != nil {
		return err
	}
	g.limits = limitsOff
	return nil
}

// setKarmada runs Karmada's controllers with the given limits.
func (g *ground) setKarmada(ctx context.Context, wanted limits) error {
	if g.limits == wanted {
		return nil
	}
	for _, p := range g.karmada {
		p.end()
	}
	g.karmada, g.limits = nil, wanted
	if wanted == limitsOff {
		return nil
	}
	for i := range g.fleet.State.Processes {
		known := &g.fleet.State.Processes[i]
		if known.Name != karmadaManager && known.Name != karmadaScheduler {
			continue
		}
		arguments := append([]string{}, known.Args...)
		if known.Name == karmadaManager {
			// Simulated agents renew no lease.
			arguments = append(arguments, "--cluster-monitor-grace-period=24h", "--cluster-startup-grace-period=24h")
		}
		if wanted == limitsRaised {
			arguments = append(arguments, raised[known.Name]...)
		}
		p := newProcess(known.Name, g.fleet.Tool(known.Program), known.Log, known.ReadyURL)
		g.karmada = append(g.karmada, p)
		if err := p.start(ctx, arguments...); err != nil {
			return err
		}
	}
	return g.quiet(ctx, 3*time.Second)
}

// setDirect runs a build of our controller, or none if program is empty.
func (g *ground) setDirect(ctx context.Context, program string) error {
	if g.direct != nil {
		if g.direct.Program == program {
			return nil
		}
		g.direct.end()
		g.direct = nil
	}
	if program == "" {
		return nil
	}
	return g.startDirect(ctx, program)
}

// startDirect starts a build of our controller as users would, but without leader
// election, which matters only with several replicas.
func (g *ground) startDirect(ctx context.Context, program string, arguments ...string) error {
	p, metrics, profiles, err := g.newDirect(ctx, program)
	if err != nil {
		return err
	}
	g.direct, g.metrics, g.profiles = p, metrics, profiles
	return p.start(ctx, append([]string{"--leader-elect=false"}, arguments...)...)
}

// newDirect returns a process of our controller, not yet started.
func (g *ground) newDirect(ctx context.Context, program string) (p *process, metrics, profiles string, err error) {
	var addresses [3]string
	for i := range addresses {
		if addresses[i], err = machine.FreeAddress(ctx); err != nil {
			return nil, "", "", err
		}
	}
	p = newProcess(controllerManager, program, filepath.Join(g.fleet.Dir, "logs", controllerManager+".log"), "http://"+addresses[0]+"/readyz",
		"--kubeconfig="+g.kubeconfig(), "--health-probe-bind-address="+addresses[0],
		"--metrics-bind-address="+addresses[1], "--enable-pprof", "--profiling-bind-address="+addresses[2])
	return p, addresses[1], addresses[2], nil
}

// pids returns the IDs of the measured processes by name.
func (g *ground) pids() map[string]int {
	pids := map[string]int{}
	for i := range g.fleet.State.Processes {
		if p := &g.fleet.State.Processes[i]; p.Identity != nil && (p.Name == karmadaServer || p.Name == "etcd" || p.Name == "karmada-webhook") {
			pids[p.Name] = p.Identity.PID
		}
	}
	for _, p := range append(g.karmada, g.direct, g.agents) {
		if p != nil && p.PID() != 0 {
			pids[p.Name] = p.PID()
		}
	}
	return pids
}

// close stops what was started, and takes the fleet down unless it is to be kept.
func (g *ground) close(ctx context.Context) error {
	g.silence()
	g.direct.end()
	for _, p := range g.karmada {
		p.end()
	}
	if g.keep {
		return nil
	}
	g.progress.say("taking the fleet down")
	return g.runFleet(ctx, "down")
}

// parallel calls a function for 0 to count-1, several at a time, and returns the
// first error.
func parallel(count, atOnce int, do func(int) error) error {
	slots := make(chan struct{}, atOnce)
	failures := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			failures[i] = do(i)
		})
	}
	group.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// until polls what cannot be watched.
func until(ctx context.Context, what string, done wait.ConditionWithContextFunc) error {
	if err := wait.PollUntilContextTimeout(ctx, testbed.Glance, longPatience, true, done); err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}
