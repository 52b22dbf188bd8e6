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
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/karmada-direct/karmada-direct/controllers/propagation"
)

// options are the flags. A flag that Karmada's controller manager has too has the
// same name here.
type options struct {
	kubeconfig string
	qps        float32
	burst      int

	leaderElect        bool
	leaseDuration      time.Duration
	renewDeadline      time.Duration
	retryPeriod        time.Duration
	leaseNamespace     string
	metricsAddress     string
	metricsSecure      bool
	metricsCert        string
	metricsKey         string
	hostKubeconfig     string
	healthProbeAddress string
	enableProfile      bool
	profilingAddress   string

	aggregateStatus bool
	renewToken      bool

	controller propagation.Options
}

func defaultOptions() *options {
	return &options{
		// The priority and fairness of the API server decides who waits.
		qps: -1, burst: 0,
		leaderElect:        true,
		leaseDuration:      15 * time.Second,
		renewDeadline:      10 * time.Second,
		retryPeriod:        2 * time.Second,
		leaseNamespace:     "karmada-system",
		metricsAddress:     ":8080",
		healthProbeAddress: ":10357",
		profilingAddress:   "127.0.0.1:6060",
		aggregateStatus:    true,
		controller:         propagation.Options{Concurrency: 16, Writers: 32},
	}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.Float32Var(&o.qps, "kube-api-qps", o.qps,
		"Maximum number of requests per second to the Karmada API server. -1 means no client-side limit: the priority and fairness of the API server decides.")
	flags.IntVar(&o.burst, "kube-api-burst", o.burst, "Number of requests that may briefly exceed --kube-api-qps. Required if --kube-api-qps is above 0.")
	flags.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect,
		"Elect a leader with a lease, so that only one of several replicas is active at a time.")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", o.leaseDuration,
		"How long other replicas wait after the last renewal of the lease before they acquire it.")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", o.renewDeadline,
		"How long the leader tries to renew the lease before it stops. Must be less than the lease duration.")
	flags.DurationVar(&o.retryPeriod, "leader-elect-retry-period", o.retryPeriod, "How long to wait between attempts to acquire or renew the lease.")
	flags.StringVar(&o.leaseNamespace, "leader-elect-resource-namespace", o.leaseNamespace,
		"Namespace of the lease, and of the PropagationRevisions of ClusterDirectPropagations, on the Karmada API server.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, `Address to serve Prometheus metrics on. "0" disables them.`)
	flags.BoolVar(&o.metricsSecure, "metrics-secure", o.metricsSecure,
		"Serve metrics over TLS, and only to clients that the host cluster allows to get the path /metrics.")
	flags.StringVar(&o.metricsCert, "metrics-tls-cert-file", o.metricsCert,
		"Path to the certificate for serving metrics, with --metrics-secure. Without it, the certificate is self-signed. The file is read again when it changes.")
	flags.StringVar(&o.metricsKey, "metrics-tls-private-key-file", o.metricsKey, "Path to the private key of --metrics-tls-cert-file.")
	flags.StringVar(&o.hostKubeconfig, "metrics-host-kubeconfig", o.hostKubeconfig,
		"Path to a kubeconfig for the host cluster, which authorizes the clients of the metrics, with --metrics-secure. Without it, the identity of the Pod is used.")
	flags.StringVar(&o.healthProbeAddress, "health-probe-bind-address", o.healthProbeAddress, `Address to serve /healthz and /readyz on. "0" disables them.`)
	flags.BoolVar(&o.enableProfile, "enable-pprof", o.enableProfile, "Serve /debug/pprof/ on --profiling-bind-address.")
	flags.StringVar(&o.profilingAddress, "profiling-bind-address", o.profilingAddress, "Address to serve profiles on, with --enable-pprof.")
	flags.IntVar(&o.controller.Concurrency, "concurrent-direct-propagation-syncs", o.controller.Concurrency,
		"Number of DirectPropagations, and number of ClusterDirectPropagations, to reconcile concurrently.")
	flags.StringSliceVar(&o.controller.LocalPrefixes, "local-metadata-prefixes", nil,
		"Prefixes of the keys of labels and annotations that stay in the control plane, for example app.kubernetes.io/instance if Argo CD tracks resources by that label. "+
			"Those of Argo CD and kubectl's last-applied-configuration always stay.")
	flags.StringVar(&o.controller.DefaultServiceAccount, "default-service-account", "",
		"Name of the service account whose permissions apply to a DirectPropagation without spec.serviceAccountName, in the namespace of that DirectPropagation. "+
			"Without it, such a DirectPropagation has the permissions of the controller.")
	flags.BoolVar(&o.aggregateStatus, "aggregate-status", o.aggregateStatus,
		"Aggregate the reports of the clusters into the status of resources in the control plane, unless an object sets spec.aggregateStatus: false.")
	flags.BoolVar(&o.renewToken, "renew-token", o.renewToken,
		"Renew the token of a kubeconfig from write-kubeconfig, in its file.")
	flags.IntVar(&o.controller.Writers, "concurrent-work-writes", o.controller.Writers, "Number of Works to write concurrently, over all objects.")
}

// pprofAddress is the address to serve profiles on; "0" disables them.
func (o *options) pprofAddress() string {
	if !o.enableProfile {
		return "0"
	}
	return o.profilingAddress
}

// validate returns an error that names each invalid flag.
func (o *options) validate() error {
	var errs []error
	if o.qps == 0 || o.qps < 0 && o.qps != -1 {
		errs = append(errs, fmt.Errorf("--kube-api-qps=%v: must be above 0, or -1 for no limit", o.qps))
	}
	if o.qps > 0 && o.burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst=%d: must be at least 1 when --kube-api-qps is above 0", o.burst))
	}
	if o.leaderElect && o.leaseDuration < time.Second {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration=%v: must be at least 1s, because a lease lasts for whole seconds", o.leaseDuration))
	}
	if o.leaderElect && o.renewDeadline >= o.leaseDuration {
		errs = append(errs, fmt.Errorf("--leader-elect-renew-deadline=%v: must be less than --leader-elect-lease-duration=%v", o.renewDeadline, o.leaseDuration))
	}
	if o.leaderElect && (o.retryPeriod <= 0 || o.retryPeriod >= o.renewDeadline) {
		errs = append(errs, fmt.Errorf("--leader-elect-retry-period=%v: must be above 0 and less than --leader-elect-renew-deadline=%v", o.retryPeriod, o.renewDeadline))
	}
	return errors.Join(append(errs, o.validateMetrics(), o.validateController())...)
}

func (o *options) validateMetrics() error {
	var errs []error
	if (o.metricsCert == "") != (o.metricsKey == "") {
		errs = append(errs, errors.New("--metrics-tls-cert-file and --metrics-tls-private-key-file: must be set both, or neither"))
	}
	if o.metricsCert != "" && !o.metricsSecure {
		errs = append(errs, errors.New("--metrics-tls-cert-file: --metrics-secure must be set"))
	}
	return errors.Join(errs...)
}

func (o *options) validateController() error {
	var errs []error
	for _, prefix := range o.controller.LocalPrefixes {
		if prefix == "" {
			errs = append(errs, errors.New("--local-metadata-prefixes: must not contain an empty prefix, which every key begins with"))
		}
	}
	if account := o.controller.DefaultServiceAccount; account != "" {
		for _, problem := range validation.IsDNS1123Subdomain(account) {
			errs = append(errs, fmt.Errorf("--default-service-account=%s: must be the name of a ServiceAccount: %s", account, problem))
		}
	}
	if o.controller.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-direct-propagation-syncs=%d: must be at least 1", o.controller.Concurrency))
	}
	if o.controller.Writers < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-work-writes=%d: must be at least 1", o.controller.Writers))
	}
	return errors.Join(errs...)
}
