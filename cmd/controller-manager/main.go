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

// The controller-manager runs the Karmada Direct controller against a Karmada
// API server.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	_ "golang.org/x/crypto/x509roots/fallback" // the image contains no certificate authorities
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set when a release is built.
var version = "dev"

func main() {
	command := newCommand()
	ctx := ctrl.SetupSignalHandler()
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	options := defaultOptions()
	logging := logsv1.NewLoggingConfiguration()
	root := &cobra.Command{
		Use:   "controller-manager",
		Short: "Propagates resources to clusters through Karmada Works",
		Long: `The controller-manager watches DirectPropagations on a Karmada API server. For
each object, it maintains one Work per cluster, and reports in the status of the
object what is applied on each cluster.

It needs the CustomResourceDefinitions that "install-crds" installs, and the
permissions that "install-rbac" grants.

When the content of its kubeconfig changes, it releases its lease and exits with
status 0, so that it can be restarted with the new kubeconfig.`,
		Example: `  # Once, and again after each upgrade:
  controller-manager install-crds --kubeconfig karmada.kubeconfig

  # Run it outside a cluster, without the leader lock:
  controller-manager --kubeconfig karmada.kubeconfig --leader-elect=false`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if err := logsv1.ValidateAndApply(logging, nil); err != nil {
				return fmt.Errorf("setting up logging: %w", err)
			}
			ctrl.SetLogger(klog.Background())
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			defer logs.FlushLogs()
			return options.start(command)
		},
	}
	options.addFlags(root.Flags())
	root.PersistentFlags().StringVar(&options.kubeconfig, "kubeconfig", "",
		"Path to the kubeconfig for the Karmada API server. Without it, $KUBECONFIG or the identity of the Pod is used.")
	logsv1.AddFlags(logging, root.PersistentFlags())
	root.AddCommand(newInstallCommand(options), newInstallRBACCommand(options), newInstallGuardrailsCommand(options),
		newWriteKubeconfigCommand(options), newVersionCommand())
	return root
}

// start runs the controller with the flags of a command until its context ends, or
// until the kubeconfig changes.
func (o *options) start(command *cobra.Command) error {
	if err := o.validate(); err != nil {
		return err
	}
	log := klog.Background()
	log.Info("Starting", "version", version, "flags", givenFlags(command.Flags()))
	// Remembered before it is read, so that no change in between is missed.
	kubeconfig := o.watchKubeconfig(log)
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	ctx, cancel := kubeconfig.untilChanged(command.Context())
	defer cancel()
	return run(ctx, config, o)
}

// givenFlags are the flags that somebody has set, as on the command line. All others
// have the defaults that --help shows.
func givenFlags(flags *pflag.FlagSet) []string {
	given := []string{}
	flags.Visit(func(flag *pflag.Flag) { given = append(given, fmt.Sprintf("--%s=%s", flag.Name, flag.Value)) })
	return given
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program, Karmada and Go",
		Args:  cobra.NoArgs,
		Run: func(command *cobra.Command, _ []string) {
			fmt.Fprintf(command.OutOrStdout(), "controller-manager %s\n", version)
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return
			}
			for _, module := range info.Deps {
				if module.Path == "github.com/karmada-io/karmada" {
					fmt.Fprintf(command.OutOrStdout(), "karmada %s\n", module.Version)
				}
			}
			fmt.Fprintf(command.OutOrStdout(), "%s\n", info.GoVersion)
		},
	}
}

// restConfig returns the configuration of clients of the Karmada API server.
func (o *options) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig of the Karmada API server (--kubeconfig): %w", err)
	}
	config.QPS, config.Burst = o.qps, o.burst
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	return config, nil
}

// run runs the controller until ctx is done, and then releases the lease.
func run(ctx context.Context, config *rest.Config, options *options) error {
	if err := awaitKarmada(ctx, config, options); err != nil {
		if ctx.Err() != nil {
			return nil // it was to end before the API server answered
		}
		return err
	}
	mgr, err := newManager(ctx, config, options)
	if err != nil {
		return err
	}
	mgr.GetLogger().Info("Starting", "version", version, "server", config.Host)
	if err := startManager(ctx, mgr); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	return nil
}

// startManager runs a manager until ctx is done. A manager whose context ends before
// its caches are filled, for example because it may not list Works, never returns: it
// waits in a busy loop for caches that have ended. It holds no lease and has written
// nothing then, so it is left behind after a moment.
func startManager(ctx context.Context, mgr ctrl.Manager) error {
	const moment = 5 * time.Second
	filled := make(signal)
	if err := mgr.Add(filled); err != nil {
		return err //nolint:wrapcheck // the caller says what failed
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-filled:
		return <-ended
	case err := <-ended:
		return err
	case <-time.After(moment):
		return nil
	}
}

// signal is closed when a manager has filled its caches.
type signal chan struct{}

// Start implements manager.Runnable.
func (s signal) Start(context.Context) error {
	close(s)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (signal) NeedLeaderElection() bool { return false }
