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
	"context"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/propagation"
	"github.com/karmada-direct/karmada-direct/controllers/throttle"
)

// leaseName is the name of the lease, which one replica holds at a time.
const leaseName = "karmada-direct"

// newScheme returns a scheme with every kind that this program reads or writes as
// a Go type.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		clusterv1alpha1.Install,
		policyv1alpha1.Install,
		workv1alpha1.Install,
		propagationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// needed are the APIs that the controller requires, each with the remedy if the
// server does not serve it.
var needed = []struct {
	version schema.GroupVersion
	remedy  string
}{
	{schema.GroupVersion(workv1alpha1.GroupVersion), "--kubeconfig must lead to a Karmada API server"},
	{schema.GroupVersion(clusterv1alpha1.GroupVersion), "--kubeconfig must lead to a Karmada API server with its aggregated API server"},
	{propagationv1alpha1.SchemeGroupVersion, "install the CustomResourceDefinitions: controller-manager install-crds"},
}

// awaitKarmada returns when the API server is one that the controller can work with.
func awaitKarmada(ctx context.Context, config *rest.Config, options *options) error {
	end, err := answerProbes(ctx, options.healthProbeAddress)
	if err != nil {
		return err
	}
	defer end()
	if err := awaitAPIs(ctx, config); err != nil {
		return err
	}
	return checkKarmada(ctx, config)
}

// awaitAPIs returns when the server serves all APIs that the controller requires.
// It waits while an error may pass by itself, as while Karmada's aggregated API server
// is down: exiting would add the back-off of a restart.
func awaitAPIs(ctx context.Context, config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a discovery client: %w", err)
	}
	for _, api := range needed {
		err := awaitAnswer(ctx, config, api.version, func(context.Context) error {
			_, err := client.ServerResourcesForGroupVersion(api.version.String())
			return err
		})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the API server %s does not serve %s; %s", config.Host, api.version, api.remedy)
		}
		if err != nil {
			return fmt.Errorf("asking the API server %s for %s: %w", config.Host, api.version, err)
		}
	}
	return nil
}

// awaitAnswer asks the server until it answers. The error is one that does not pass.
func awaitAnswer(ctx context.Context, config *rest.Config, api schema.GroupVersion, ask func(context.Context) error) error {
	return wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) { //nolint:wrapcheck // the caller says what failed
		err := ask(ctx)
		if passes(err) {
			klog.FromContext(ctx).Info("Waiting for an API that is not available now", "api", api, "server", config.Host, "reason", err.Error())
			return false, nil
		}
		return err == nil, err
	})
}

// passes reports whether an error may pass by itself: the server is down or has too much
// to do, or it starts. It then refuses everything until it has loaded its roles.
func passes(err error) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err):
		return strings.Contains(err.Error(), "RBAC: ")
	default:
		return apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
			apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
			utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
	}
}

// clients returns the configurations of two clients: that of the controller, whose requests
// are fenced and throttled, and that of the lease. However much there is to do, the lease
// is renewed.
func (o *options) clients(config *rest.Config) (controller, lease *rest.Config, err error) {
	controller = rest.CopyConfig(config)
	if o.leaderElect {
		clock, err := newLeaseClock(config, o.leaseDuration)
		if err != nil {
			return nil, nil, err
		}
		controller.Wrap(clock.wraps)
	}
	lease = rest.CopyConfig(controller)
	lease.QPS, lease.Burst = rest.DefaultQPS, rest.DefaultBurst
	lease.Timeout = o.renewDeadline / 2
	// Around the fence, which sees a request when it is sent.
	controller.Wrap(throttle.New(clock.RealClock{}, ctrl.Log.WithName("throttle")).Wrap)
	return controller, lease, nil
}

// managerOptions are what a manager is made with.
func (o *options) managerOptions(leaseConfig *rest.Config, scheme *runtime.Scheme, cacheOptions cache.Options, metrics metricsserver.Options) ctrl.Options {
	return ctrl.Options{
		Scheme:                        scheme,
		Cache:                         cacheOptions,
		Metrics:                       metrics,
		HealthProbeBindAddress:        o.healthProbeAddress,
		PprofBindAddress:              o.pprofAddress(),
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.leaseNamespace,
		LeaderElectionConfig:          leaseConfig,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(o.leaseDuration),
		RenewDeadline:                 ptr.To(o.renewDeadline),
		RetryPeriod:                   ptr.To(o.retryPeriod),
	}
}

// newManager connects the controller to a Karmada API server.
func newManager(ctx context.Context, config *rest.Config, options *options) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	cacheOptions, err := propagation.CacheOptions()
	if err != nil {
		return nil, fmt.Errorf("setting up the cache: %w", err)
	}
	metrics, err := options.metricsOptions()
	if err != nil {
		return nil, err
	}
	config, leaseConfig, err := options.clients(config)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, options.managerOptions(leaseConfig, scheme, cacheOptions, metrics))
	if err != nil {
		return nil, fmt.Errorf("connecting to the Karmada API server %s: %w", config.Host, err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	if err := renewToken(mgr, config, options); err != nil {
		return nil, err
	}
	settings := options.controller
	settings.KeepTemplateStatus, settings.RevisionNamespace = !options.aggregateStatus, options.leaseNamespace
	if err := propagation.SetupWithManager(ctx, mgr, settings); err != nil {
		return nil, fmt.Errorf("setting up the controller: %w", err)
	}
	return mgr, nil
}
