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
	"fmt"
	"io"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// statusTimeout is how long the checks of all processes may take together, and
// likewise the list of Clusters.
const statusTimeout = 3 * time.Second

// status prints the state of the processes and of Karmada's clusters.
func status(ctx context.Context, dir string, out io.Writer) error {
	state, err := loadState(dir)
	if errors.Is(err, errNoFleet) {
		fmt.Fprintf(out, "No fleet in %s. Start one with `fleet up`.\n", dir)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Fleet %s in %s\n\n", state.Name, state.Dir)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tSTATE\tPID\tPORT\tLOG")
	conditions := state.processStates(ctx)
	for i, p := range state.Processes {
		pid := "-"
		if conditions[i] != stopped {
			pid = strconv.Itoa(p.Identity.PID)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", p.Name, conditions[i], pid, p.Port, p.Log)
	}
	fmt.Fprintln(table)
	if err := state.printClusters(ctx, table); err != nil {
		fmt.Fprintf(table, "CLUSTER\tunknown: %v\n", err)
	}
	return table.Flush()
}

// The states of a process.
const (
	running  = "running"
	notReady = "not ready" // it is running, but does not respond as expected
	stopped  = "stopped"
)

// processStates checks all processes concurrently.
func (s *State) processStates(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	states := make([]string, len(s.Processes))
	var group sync.WaitGroup
	for i, p := range s.Processes {
		group.Go(func() { states[i] = p.state(ctx) })
	}
	group.Wait()
	return states
}

func (p *Process) state(ctx context.Context) string {
	if !proc.runs(p.Identity) {
		return stopped
	}
	check, err := newReadyCheck(p)
	if err != nil || check(ctx) != nil {
		return notReady
	}
	return running
}

// printClusters lists Karmada's Cluster objects.
func (s *State) printClusters(ctx context.Context, out io.Writer) error {
	if !proc.runs(s.process(karmadaContext).Identity) {
		return errors.New("the Karmada API server is stopped")
	}
	client, err := s.client(groupKarmada)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	list, err := client.Resource(clusters).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "CLUSTER\tMODE\tREADY\tMESSAGE")
	for _, cluster := range list.Items {
		mode, _, _ := unstructured.NestedString(cluster.Object, "spec", "syncMode")
		ready, message := condition(&cluster, "Ready")
		if cluster.GetDeletionTimestamp() != nil {
			message = "being deleted"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", cluster.GetName(), mode, ready, message)
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(out, "none")
	}
	return nil
}
