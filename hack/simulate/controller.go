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

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
}

// startReplica starts the controller as its program does. Its requests wait in the
// server.
func startReplica(ctx context.Context, name string, server *apiserver.Server) (*replica, error) {
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
	mgr, err := ctrl.NewManager(server.Config(name), ctrl.Options{
		Scheme: scheme, Cache: caches, Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: ptr.To(agony), Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("creating a manager: %w", err)
	}
	if err := propagation.SetupWithManager(ctx, mgr, propagation.Options{Concurrency: 1, Writers: 4}); err != nil {
		return nil, err //nolint:wrapcheck // it says what it did
	}
	go func() { r.ended <- mgr.Start(ctx) }()
	return r, nil
}
