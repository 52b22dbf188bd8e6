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
	"syscall"

	"github.com/spf13/cobra"
)

// fleetsFolder holds, in the repository's root, the folders of all fleets.
const fleetsFolder = ".fleet"

// fleetFlags say which fleet a command is about.
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
  fleet status      # what runs, and what Karmada thinks of its members
  fleet stop member1
  fleet start member1
  fleet down        # nothing is left`,
		SilenceUsage:  true,
		SilenceErrors: true, // main prints them
	}
	cmd.PersistentFlags().StringVar(&fleet.name, "name", defaultName, "name of the fleet; fleets of different names run side by side")
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

// folder is the absolute folder of the fleet's state.
func (f *fleetFlags) folder() (string, error) {
	if f.dir != "" {
		return filepath.Abs(f.dir)
	}
	if !namePattern.MatchString(f.name) {
		return "", fmt.Errorf("fleet name %q: want lower-case letters, digits and dashes, a letter first", f.name)
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
		Long: `Compile programs, unless that was done before, and print the folder that holds
them as the only line on standard output. Without arguments, these are the
programs of a fleet, components and kwok; "fleet up" does the same first. Each
part is compiled and kept on its own. The components include etcd, kube-apiserver
and kubectl under these names, as controller-runtime's envtest expects.`,
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
		Short: "Start a fleet, or what is missing of one",
		Long: `Start a fleet and wait until all its members are Ready. On a fleet that is up,
start again what does not run and register again what is not registered.

If something fails, up says what, shows the end of its log, and ends what it
started. The folder stays for a look at the logs, until "fleet down".`,
		Example: `  fleet up
  fleet up --name big --members a=push,b=push,c=pull
  fleet up --host   # with a cluster to install charts into
  fleet up --argocd # with Argo CD there, which deploys to Karmada
  fleet up --component-arg karmada-controller-manager=--concurrent-work-syncs=50
  fleet up --component-arg kube-apiserver=--v=4   # of all API servers`,
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
			options.explicit = slices.ContainsFunc([]string{"members", "host", "argocd", "component-arg"}, cmd.Flags().Changed)
			options.config.Host = options.config.Host || options.config.ArgoCD
			return up(cmd.Context(), options, newProgress(os.Stdout))
		},
	}
	cmd.Flags().StringVar(&members, "members", defaultMembers, "members and how Karmada reaches them, push or pull")
	cmd.Flags().BoolVar(&options.config.Host, "host", false, "add the cluster that Karmada's own Pods would run in, for what is installed beside them")
	cmd.Flags().BoolVar(&options.config.ArgoCD, "argocd", false, "add Argo CD to the host cluster (implies --host); needs redis-server and git on this machine")
	cmd.Flags().StringArrayVar(&componentArgs, "component-arg", nil, "extra argument as COMPONENT=--flag=value, for a process or for all of a program; repeatable")
	cmd.Flags().BoolVar(&options.keepOnFailure, "keep-on-failure", false, "leave running what was started when something fails")
	return cmd
}

func newDownCommand(fleet *fleetFlags) *cobra.Command {
	afterStdin := false
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End a fleet and delete its folder",
		Long: `End all processes of a fleet and delete its folder. Only processes that the fleet
started are ended: they are known by their id together with their start time.
Where there is no fleet, down does nothing and succeeds.`,
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
	cmd.Flags().BoolVar(&afterStdin, "after-stdin", false, "first wait until standard input closes; whoever holds a pipe to it open takes the fleet down by ending")
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
		Short: "Stop processes, or whole members",
		Long: `Stop processes by the names that "fleet status" shows, all processes of a member
by the member's name, or all of Karmada's by "karmada". What is stopped stays
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
	cmd.Flags().StringVar(&signalName, "signal", "TERM", "signal to stop with: TERM, INT or KILL; who does not listen is killed after 10 seconds")
	return cmd
}

var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}

func newStartCommand(fleet *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "start NAME...",
		Short: "Start stopped processes, or whole members",
		Long: `Start processes, or all processes of a member, on their old ports and with their
old data, and wait until each is ready. Karmada calls a member Ready again some
30 seconds later.`,
		Example: `  fleet start member1`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			return startNamed(cmd.Context(), dir, names, newProgress(os.Stdout))
		},
	}
}

func newJoinCommand(fleet *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "join MEMBER",
		Short: "Register a member with Karmada again",
		Long: `Register a member that was unjoined, a push member by "karmadactl join", a pull
member by starting its agent, and wait until it is Ready.`,
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
		Short: "Take a member out of Karmada",
		Long: `Take a member out of Karmada, a push member by "karmadactl unjoin", a pull member
by "karmadactl unregister" and the end of its agent. The cluster itself runs on.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := fleet.folder()
			if err != nil {
				return err
			}
			return unjoin(cmd.Context(), dir, args[0], force, newProgress(os.Stdout))
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "do not insist on cleaning up a member that cannot be reached")
	return cmd
}
