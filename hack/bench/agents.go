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
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/faults/agents"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// agentsCommand, as the first argument, makes this program only simulate agents. As
// a separate process, the agents compete with a plain client in the same way as with
// a controller.
const agentsCommand = "agents"

// playedClusters returns the names of simulated clusters.
func playedClusters(count int) []string { return agents.Names("played", count) }

// playAgents is the main function of that process. It exits without an error when it
// is told to stop.
func playAgents(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet(agentsCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the Karmada API server")
	count := flags.Int("count", 0, "number of clusters whose agents are simulated")
	address := flags.String("address", "", "address on which the process reports that it is ready")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	g := &ground{}
	if err := g.connectTo(*kubeconfig); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ReadHeaderTimeout: time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	stop := serving(ctx, g.newAgents(playedClusters(*count)))
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	return errors.Join(err, stop(), server.Close())
}

func (g *ground) newAgents(clusters []string) *agents.Agents {
	return &agents.Agents{
		Client: g.client, Clusters: clusters, Writers: writers,
		Enablements: []clusterv1alpha1.APIEnablement{{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap"}, {Name: "secrets", Kind: "Secret"}, {Name: "namespaces", Kind: "Namespace"},
		}}},
	}
}

// serving lets agents respond until stop is called. If the API server rejects or
// ends a watch, it starts a new one, which shows all existing Works.
func serving(ctx context.Context, played *agents.Agents) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- wait.PollUntilContextCancel(ctx, testbed.Glance, true, func(ctx context.Context) (bool, error) {
			_ = played.Serve(ctx) // whoever waits for a missing response times out and reports it
			return ctx.Err() != nil, nil
		})
	}()
	return sync.OnceValue(func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

// play ensures that at least count simulated clusters exist and that their agents
// respond.
func (g *ground) play(ctx context.Context, count int) ([]string, error) {
	wanted := playedClusters(count)
	if count > g.played {
		g.silence()
		// Otherwise, Karmada would create Works and namespaces for each of them.
		if err := g.setKarmada(ctx, limitsOff); err != nil {
			return nil, err
		}
		g.progress.say("registering clusters %d to %d", g.played+1, count)
		if err := g.newAgents(wanted[g.played:]).Join(ctx); err != nil {
			return nil, err
		}
		g.played = count
	}
	return wanted, g.serve(ctx)
}

// serve starts the agents of all simulated clusters, unless they are running.
func (g *ground) serve(ctx context.Context) error {
	if g.agents != nil || g.played == 0 {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	address, err := machine.FreeAddress(ctx)
	if err != nil {
		return err
	}
	g.agents = newProcess("simulated agents", program, filepath.Join(g.fleet.Dir, "logs", "played-agents.log"), "http://"+address+"/")
	return g.agents.start(ctx, agentsCommand, "-kubeconfig="+g.kubeconfig(), "-count="+strconv.Itoa(g.played), "-address="+address)
}

// silence stops the agents.
func (g *ground) silence() {
	g.agents.end()
	g.agents = nil
}
