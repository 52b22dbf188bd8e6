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

package simulate

import (
	"context"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/propagation"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

// newScheme has the types of the controller, and those of the users.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1alpha1.Install, policyv1alpha1.Install,
		workv1alpha1.Install, workv1alpha2.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// replica is a process of the controller.
type replica struct {
	name  string
	kill  context.CancelFunc
	ended chan error
	// hasEnded: it has ended by itself.
	hasEnded bool
	// frozen: nobody answers it now.
	frozen bool
}

// startReplicas starts the controller: in some worlds two processes.
func (w *World) startReplicas(ctx context.Context) error {
	w.pair = w.choices.oneIn(4) && !w.choices.alone
	if err := w.startReplica(ctx); err != nil || !w.pair {
		return err
	}
	return w.startReplica(ctx)
}

// startReplica starts another process of the controller. Its goroutines have its name as
// a label.
func (w *World) startReplica(ctx context.Context) error {
	w.started++
	name := fmt.Sprintf("%s-%d", theController, w.started)
	var started *replica
	var err error
	pprof.Do(ctx, pprof.Labels("replica", name), func(ctx context.Context) {
		started, err = newReplica(ctx, name, w.server, w.pair)
	})
	if err == nil {
		w.replicas = append(w.replicas, started)
	}
	return err
}

// newReplica starts the controller as its program does. Its requests wait in the server.
func newReplica(ctx context.Context, name string, server *apiserver.Server, elects bool) (*replica, error) {
	ctx, kill := context.WithCancel(ctx)
	r := &replica{name: name, kill: kill, ended: make(chan error, 1)}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	caches, err := propagation.CacheOptions()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it did
	}
	lease, err := newLease(name, server)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(server.Config(name), ctrl.Options{
		Scheme: scheme, Cache: caches, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: ptr.To(agony), Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		// As in cmd/controller-manager.
		LeaderElection: elects, LeaderElectionID: "karmada-direct", LeaderElectionReleaseOnCancel: true, LeaderElectionResourceLockInterface: lease,
		LeaseDuration: ptr.To(15 * time.Second), RenewDeadline: ptr.To(renewDeadline), RetryPeriod: ptr.To(2 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("creating a manager: %w", err)
	}
	if err := propagation.SetupWithManager(ctx, mgr, propagation.Options{Concurrency: 1, Writers: 4, RevisionNamespace: "karmada-system"}); err != nil {
		return nil, err //nolint:wrapcheck // it says what it did
	}
	go func() { r.ended <- mgr.Start(ctx) }()
	return r, nil
}

// renewDeadline is after how long a leader gives up that cannot renew its lease.
const renewDeadline = 10 * time.Second

// newLease is what processes of the controller elect their leader by. It records no
// Events: they would be recorded even after a process has ended.
func newLease(name string, server *apiserver.Server) (resourcelock.Interface, error) {
	config := server.Config(name)
	config.Timeout = renewDeadline / 2
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client of leases: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "karmada-system", "karmada-direct", core, leases, resourcelock.ResourceLockConfig{Identity: name})
	if err != nil {
		return nil, fmt.Errorf("creating a lock: %w", err)
	}
	return lock, nil
}
