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

// options are the flags. Where Karmada's controller manager has the same one,
// it has the same name.
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
		// The API server's own priority and fairness decides who waits.
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
		"Requests a second to the Karmada API server; -1 for no limit of our own, so that the API server's priority and fairness decides.")
	flags.IntVar(&o.burst, "kube-api-burst", o.burst, "Requests that may exceed --kube-api-qps for a moment; wanted when that is above 0.")
	flags.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect,
		"Hold a lease while working, so that of several replicas one works at a time.")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", o.leaseDuration,
		"How long other replicas wait after the last renewal of the lease before they take it.")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", o.renewDeadline,
		"How long the replica that works tries to renew the lease before it stops. Less than the lease duration.")
	flags.DurationVar(&o.retryPeriod, "leader-elect-retry-period", o.retryPeriod, "How long to wait between attempts to get or renew the lease.")
	flags.StringVar(&o.leaseNamespace, "leader-elect-resource-namespace", o.leaseNamespace,
		"Namespace of the lease, on the Karmada API server.")
	flags.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, `Address to serve Prometheus metrics on; "0" for none.`)
	flags.BoolVar(&o.metricsSecure, "metrics-secure", o.metricsSecure,
		"Serve metrics by TLS, and only to those whom the host cluster lets get the path /metrics.")
	flags.StringVar(&o.metricsCert, "metrics-tls-cert-file", o.metricsCert,
		"Certificate of the metrics, with --metrics-secure; self-signed without it. Read again when it changes.")
	flags.StringVar(&o.metricsKey, "metrics-tls-private-key-file", o.metricsKey, "Key of --metrics-tls-cert-file.")
	flags.StringVar(&o.hostKubeconfig, "metrics-host-kubeconfig", o.hostKubeconfig,
		"Path to a kubeconfig of the host cluster, which reviews the readers of the metrics with --metrics-secure. Without it, the identity of the Pod is used.")
	flags.StringVar(&o.healthProbeAddress, "health-probe-bind-address", o.healthProbeAddress, `Address to serve /healthz and /readyz on; "0" for none.`)
	flags.BoolVar(&o.enableProfile, "enable-pprof", o.enableProfile, "Serve /debug/pprof/ on --profiling-bind-address.")
	flags.StringVar(&o.profilingAddress, "profiling-bind-address", o.profilingAddress, "Address to serve profiles on, with --enable-pprof.")
	flags.IntVar(&o.controller.Concurrency, "concurrent-direct-propagation-syncs", o.controller.Concurrency,
		"How many DirectPropagations, and how many ClusterDirectPropagations, are reconciled at once.")
	flags.StringSliceVar(&o.controller.LocalPrefixes, "local-metadata-prefixes", nil,
		"Prefixes of the keys of labels and annotations that stay in the control plane, for example app.kubernetes.io/instance where Argo CD tracks by that label. "+
			"Those of Argo CD and kubectl's last-applied-configuration always stay.")
	flags.StringVar(&o.controller.DefaultServiceAccount, "default-service-account", "",
		"Name of the service account, in the namespace of each DirectPropagation that names none itself, whose permissions count. "+
			"Without it, such a DirectPropagation has the permissions of the controller.")
	flags.BoolVar(&o.aggregateStatus, "aggregate-status", o.aggregateStatus,
		"Aggregate what the clusters report onto resources in the control plane, unless an object says spec.aggregateStatus: false.")
	flags.BoolVar(&o.renewToken, "renew-token", o.renewToken,
		"Renew the token of the kubeconfig that write-kubeconfig has written, in its file.")
	flags.IntVar(&o.controller.Writers, "concurrent-work-writes", o.controller.Writers, "How many Works are written at once, over all DirectPropagations.")
}

// pprofAddress is where profiles are served; "0" for nowhere.
func (o *options) pprofAddress() string {
	if !o.enableProfile {
		return "0"
	}
	return o.profilingAddress
}

// validate names each flag that cannot be as it is.
func (o *options) validate() error {
	var errs []error
	if o.qps == 0 || o.qps < 0 && o.qps != -1 {
		errs = append(errs, fmt.Errorf("--kube-api-qps=%v: must be above 0, or -1 for no limit", o.qps))
	}
	if o.qps > 0 && o.burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst=%d: must be at least 1 when --kube-api-qps is above 0", o.burst))
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
