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
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// fleetsFolder is the folder of all fleets in the repository's root.
const fleetsFolder = ".fleet"

// fleetFlags are the flags that identify a fleet.
type fleetFlags struct {
	name string
	dir  string
}

func newCommand() *cobra.Command {
	fleet := &fleetFlags{}
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "A real Karmada fleet on one machine, without containers",
		Long: `fleet runs a Karmada control plane and member clusters as plain processes:
etcd, API servers, controllers, schedulers, Karmada's own servers, and kwok for
nodes on which Pods become Ready. Everything is compiled from Go modules, listens
on 127.0.0.1 only, and keeps its files in one folder.`,
		Example: `  fleet up          # one push member and one pull member, ready in seconds
  fleet status      # the state of the processes and of Karmada's clusters
  fleet stop member1
  fleet start member1
  fleet down        # leaves nothing behind`,
		SilenceUsage:  true,
		SilenceErrors: true, // main prints them
	}
	cmd.PersistentFlags().StringVar(&fleet.name, "name", defaultName, "name of the fleet; fleets with different names can run side by side")
	cmd.PersistentFlags().StringVar(&fleet.dir, "dir", "", "folder of the fleet's state (default <repository>/.fleet/<name>)")
	cmd.AddCommand(
		newBuildCommand(),
		newUpCommand(fleet),
		newDownCommand(fleet),
		newStatusCommand(fleet),
		newStopCommand(fleet),
		newStartCommand(fleet),
		newJoinCommand(fleet),
		newUnjoinCommand(fleet),
	)
	return cmd
}

// folder returns the absolute path of the fleet's folder.
func (f *fleetFlags) folder() (string, error) {
	if f.dir != "" {
		return filepath.Abs(f.dir)
	}
	if !namePattern.MatchString(f.name) {
		return "", fmt.Errorf("fleet name %q: want lowercase letters, digits and dashes, starting with a letter", f.name)
	}
	sources, err := sourceDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(filepath.Dir(sources)), fleetsFolder, f.name), nil
}

func newBuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [components|kwok|helm|argocd]...",
		Short: "Compile programs and print their folder",
		Long: `Compile programs, unless they are already built, and print their folder as the
only line on standard output. Without arguments, compile the programs of a
fleet: components and kwok. "fleet up" does this first. Each part is compiled
and cached separately. The components include etcd, kube-apiserver and kubectl
under these names, as controller-runtime's envtest expects.`,
		Example: `  export KUBEBUILDER_ASSETS=$(fleet build components)
  $(fleet build helm)/helm version`,
		RunE: func(cmd *cobra.Command, names []string) error {
			recipes, err := findRecipes(names)
			if err != nil {
				return err
			}
			built, err := ensureBuilt(cmd.Context(), recipes, newProgress(os.Stderr))
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), built.Bin)
			return nil
		},
	}
}

func newUpCommand(fleet *fleetFlags) *cobra.Command {
	var members string
	var componentArgs []string
	options := upOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a fleet, or the missing parts of one",
		Long: `Start a fleet and wait until all its members are Ready. On a running fleet, start
stopped processes again and register unregistered members again.

If something fails, up prints the error and the end of the log, and stops what it
started. The folder with the logs remains until "fleet down".`,
		Example: `  fleet up
  fleet up --name big --members a=push,b=push,c=pull
  fleet up --host   # with a host cluster to install charts into
  fleet up --argocd # with Argo CD, which deploys to Karmada
  fleet up --karmada-version v1.18.1
  fleet up --component-arg karmada-controller-manager=--concurrent-work-syncs=50
  fleet up --component-arg kube-apiserver=--v=4   # for all API servers`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if options.dir, err = fleet.folder(); err != nil {
				return err
			}
			options.config.Name = fleet.name
			if options.config.Members, err = parseMembers(members); err != nil {
				return err
			}
			if options.config.ComponentArgs, err = parseComponentArgs(componentArgs); err != nil {
				return err
			}
			options.explicit = slices.ContainsFunc([]string{"members", "host", "argocd", "component-arg", "karmada-version"}, cmd.Flags().Changed)
			options.config.Host = options.config.Host || options.config.ArgoCD
			return up(cmd.Context(), options, newProgress(os.Stdout))
		},
	}
	cmd.Flags().StringVar(&members, "members", defaultMembers, "members of the fleet, each with its mode: push or pull")
	cmd.Flags().BoolVar(&options.config.Host, "host", false, "add a host cluster, in which Karmada's own Pods would run, to install charts into")
	cmd.Flags().BoolVar(&options.config.ArgoCD, "argocd", false, "add Argo CD to the host cluster (implies --host); needs redis-server and git on this machine")
	cmd.Flags().StringArrayVar(&componentArgs, "component-arg", nil, "extra argument as COMPONENT=--flag=value, for one process or for all processes of a program; repeatable")
	cmd.Flags().StringVar(&options.config.KarmadaVersion, "karmada-version", "", "version of Karmada, with the Kubernetes that it is made for: "+strings.Join(otherVersions, ", ")+" (default: the version that the controller is built with)")
	cmd.Flags().BoolVar(&options.keepOnFailure, "keep-on-failure", false, "keep what was started running if something fails")
	return cmd
}

func newDownCommand(fleet *fleetFlags) *cobra.Command {
	afterStdin := false
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a fleet and delete its folder",
		Long: `Stop all processes of a fleet and delete its folder. Only processes that the fleet
started are stopped; they are identified by their process ID and start time.
If there is no fleet, down does nothing and succeeds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			if afterStdin {
				return downAfter(cmd.Context(), cmd.InOrStdin(), dir, newProgress(os.Stdout))
			}
			return down(cmd.Context(), dir, newProgress(os.Stdout))
		},
	}
	cmd.Flags().BoolVar(&afterStdin, "after-stdin", false, "first wait until standard input closes; the fleet then goes down when the process that holds the other end of the pipe exits")
	return cmd
}

func newStatusCommand(fleet *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the processes of a fleet and Karmada's clusters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			return status(cmd.Context(), dir, cmd.OutOrStdout())
		},
	}
}

func newStopCommand(fleet *fleetFlags) *cobra.Command {
	var signalName string
	cmd := &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop processes or whole members",
		Long: `Stop processes by the names that "fleet status" shows, all processes of a member
by the member's name, or all processes of Karmada by "karmada". They stay
stopped until "fleet start" or "fleet up".`,
		Example: `  fleet stop member1                                    # an outage
  fleet stop karmada-controller-manager --signal KILL   # a crash`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			signal, known := signals[signalName]
			if !known {
				return fmt.Errorf("signal %q: want TERM, INT or KILL", signalName)
			}
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			return stopNamed(cmd.Context(), dir, names, signal, newProgress(os.Stdout))
		},
	}
	cmd.Flags().StringVar(&signalName, "signal", "TERM", "signal to stop with: TERM, INT or KILL; a process that does not exit is killed after 10 seconds")
	return cmd
}

var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}

func newStartCommand(fleet *fleetFlags) *cobra.Command {
	var extraArgs []string
	cmd := &cobra.Command{
		Use:   "start NAME...",
		Short: "Start stopped processes or whole members",
		Long: `Start processes, or all processes of a member, with their previous ports and
data, and wait until each is ready. Karmada reports a member as Ready again about
30 seconds later.`,
		Example: `  fleet start member1
  fleet start etcd --arg=--quota-backend-bytes=100000000`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			return startNamed(cmd.Context(), dir, names, extraArgs, newProgress(os.Stdout))
		},
	}
	cmd.Flags().StringArrayVar(&extraArgs, "arg", nil, "extra argument for the started processes, until they are stopped; repeatable")
	return cmd
}

func newJoinCommand(fleet *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "join MEMBER",
		Short: "Register a member with Karmada again",
		Long: `Register a member that was unjoined, and wait until it is Ready. A push member is
registered with "karmadactl join", a pull member by starting its agent.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			return join(cmd.Context(), dir, args[0], newProgress(os.Stdout))
		},
	}
}

func newUnjoinCommand(fleet *fleetFlags) *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "unjoin MEMBER",
		Short: "Remove a member from Karmada",
		Long: `Remove a member from Karmada: a push member with "karmadactl unjoin", a pull member
with "karmadactl unregister", after which its agent stops. The cluster keeps running.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			return unjoin(cmd.Context(), dir, args[0], force, newProgress(os.Stdout))
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove the member even if it cannot be reached and cleaned up")
	return cmd
}
