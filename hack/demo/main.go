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

// Command demo starts a fleet and the controller, and shows step by step what the
// controller does. It leaves everything running. "demo down" stops it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	klog.SetOutput(os.Stderr)
	return newCommand().ExecuteContext(ctx)
}

func newCommand() *cobra.Command {
	name := "demo"
	// The Makefile starts this program in the repository's root.
	fleetOf := func() (*fleet, error) {
		root, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("finding the repository: %w", err)
		}
		return &fleet{name: name, root: root, dir: filepath.Join(".fleet", name)}, nil
	}
	root := &cobra.Command{
		Use:           "demo",
		Short:         "Show what Karmada Direct does, on this machine",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(command *cobra.Command, _ []string) error {
			fleet, err := fleetOf()
			if err != nil {
				return err
			}
			return tell(command.Context(), fleet, newPrinter(os.Stdout))
		},
	}
	root.PersistentFlags().StringVar(&name, "name", name, "name of the fleet to use, or to start")
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(&cobra.Command{
		Use:   "down",
		Short: "Stop the controller and the fleet of the demo, and delete their files",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			fleet, err := fleetOf()
			if err != nil {
				return err
			}
			return down(command.Context(), fleet, newPrinter(os.Stdout))
		},
	})
	return root
}
