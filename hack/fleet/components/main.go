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

// Command components contains the servers and clients of a fleet in one program. The
// name by which it is called selects the component. Compiling and linking the common
// libraries of Kubernetes and Karmada once instead of ten times makes a cold build
// minutes faster, and the processes of a fleet share the program's memory.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs may ask for any of the auth plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // the client's metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // the build's version on /metrics
	"k8s.io/klog/v2"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	ctrl "sigs.k8s.io/controller-runtime"

	karmadaagent "github.com/karmada-io/karmada/cmd/agent/app"
	karmadacontrollermanager "github.com/karmada-io/karmada/cmd/controller-manager/app"
	karmadascheduler "github.com/karmada-io/karmada/cmd/scheduler/app"
	karmadawebhook "github.com/karmada-io/karmada/cmd/webhook/app"
	"github.com/karmada-io/karmada/pkg/karmadactl"
)

// components maps a program name to what the upstream main function of that name
// does. Commands are created only on demand, because creating one registers flags
// and feature gates that conflict with those of others.
var components = map[string]func() int{
	"etcd":                       func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":             func() int { return cli.Run(kubeapiserver.NewAPIServerCommand()) },
	"kube-controller-manager":    func() int { return cli.Run(kubecontrollermanager.NewControllerManagerCommand()) },
	"kube-scheduler":             func() int { return cli.Run(kubescheduler.NewSchedulerCommand()) },
	"kubectl":                    runKubectl,
	"karmada-controller-manager": func() int { return serve(karmadacontrollermanager.NewControllerManagerCommand) },
	"karmada-scheduler": func() int {
		return serve(func(ctx context.Context) *cobra.Command { return karmadascheduler.NewSchedulerCommand(ctx) })
	},
	"karmada-webhook": func() int { return serve(karmadawebhook.NewWebhookCommand) },
	"karmada-agent":   runAgent,
	"karmadactl":      runKarmadactl,
}

func main() {
	name := filepath.Base(os.Args[0])
	run, ok := components[name]
	if !ok {
		names := make([]string, 0, len(components))
		for n := range components {
			names = append(names, n)
		}
		slices.Sort(names)
		fmt.Fprintf(os.Stderr, "%s: call this program by the name of one of its components: %s\n", name, strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// serve runs a server of Karmada until the process receives a signal.
func serve(newCommand func(context.Context) *cobra.Command) int {
	defer logs.FlushLogs()
	return cli.Run(newCommand(ctrl.SetupSignalHandler()))
}

// runAgent sets a logger for controller-runtime, which otherwise complains in the
// log that it has none.
func runAgent() int {
	ctrl.SetLogger(klog.Background())
	return serve(karmadaagent.NewAgentCommand)
}

func runKubectl() int {
	// As in upstream: the verbosity must be set before the command is created.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits
	}
	return 0
}

func runKarmadactl() int {
	if err := cli.RunNoErrOutput(karmadactl.NewKarmadaCtlCommand("karmadactl", "karmadactl")); err != nil {
		kubectlutil.CheckErr(err) // prints and exits
	}
	return 0
}
