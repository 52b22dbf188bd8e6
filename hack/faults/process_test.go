//go:build faults

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

package faults

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// The names of processes of the fleet.
const (
	karmadaControllers = "karmada-controller-manager"
	aggregatedServer   = "karmada-aggregated-apiserver"
	karmadaServer      = "karmada-apiserver"
	agent2             = "member2-karmada-agent"
)

// fleetDoes runs a command of the fleet program and returns how long that took.
func fleetDoes(t *testing.T, arguments ...string) time.Duration {
	t.Helper()
	began, output := time.Now(), &bytes.Buffer{}
	if err := bed.Fleet.Run(context.Background(), output, arguments...); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return time.Since(began)
}

// stops stops processes and returns the time when they have ended. They are started
// again when the test ends, if not before.
func stops(t *testing.T, names ...string) time.Time {
	t.Helper()
	return stopsWith(t, "TERM", names...)
}

// crashes kills processes, as a power failure would.
func crashes(t *testing.T, names ...string) time.Time {
	t.Helper()
	return stopsWith(t, "KILL", names...)
}

func stopsWith(t *testing.T, signal string, names ...string) time.Time {
	t.Helper()
	t.Cleanup(func() {
		starts(t, names...)
		allReady(t)
	})
	fleetDoes(t, append([]string{"stop", "--signal", signal}, names...)...)
	return time.Now()
}

// starts starts processes and returns the time when they are ready.
func starts(t *testing.T, names ...string) time.Time {
	t.Helper()
	fleetDoes(t, append([]string{"start"}, names...)...)
	return time.Now()
}

// startsInOrder starts processes of the control plane and then, when the API of Clusters
// is available, others. The agent exits if it starts before, and Karmada's controllers take
// minutes to begin.
func startsInOrder(t *testing.T, first, then []string) time.Time {
	t.Helper()
	if len(first) > 0 {
		starts(t, first...)
	}
	if err := bed.Await(t.Context(), "the API of Clusters is available", clustersAreServed); err != nil {
		t.Fatal(err)
	}
	if len(then) > 0 {
		starts(t, then...)
	}
	return time.Now()
}

// clustersAreServed returns an error unless the API server serves Clusters, and its discovery,
// which is later, says so.
func clustersAreServed(ctx context.Context) error {
	finder, err := discovery.NewDiscoveryClientForConfig(bed.Config)
	if err != nil {
		return fmt.Errorf("creating a discovery client: %w", err)
	}
	_, lists, err := finder.ServerGroupsAndResources()
	if err != nil {
		return fmt.Errorf("reading what the API server serves: %w", err)
	}
	for _, list := range lists {
		if list.GroupVersion == clusterv1alpha1.GroupVersion.String() && len(list.APIResources) > 0 {
			return karmada.List(ctx, &clusterv1alpha1.ClusterList{})
		}
	}
	return fmt.Errorf("discovery does not show %s", clusterv1alpha1.GroupVersion)
}

// rejoining is how long Karmada may take to report a restarted member as Ready.
const rejoining = 3 * time.Minute

// allReady waits until Karmada reports every member as Ready.
func allReady(t *testing.T) {
	t.Helper()
	for _, m := range members {
		if _, err := bed.AwaitFor(context.Background(), rejoining, m.Name+" is Ready again", func(context.Context) error {
			return isReady(m.Name)
		}); err != nil {
			t.Error(err)
		}
	}
}

// isReady returns an error unless Karmada currently reports a cluster as Ready.
func isReady(name string) error {
	cluster, ok := clusters.Latest(client.ObjectKey{Name: name}).(*clusterv1alpha1.Cluster)
	if !ok {
		return fmt.Errorf("there is no Cluster %s", name)
	}
	if !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
		return fmt.Errorf("the Cluster %s is not Ready: %+v", name, cluster.Status.Conditions)
	}
	return nil
}

// readiness waits until a cluster is Ready or, if want is false, not Ready. It
// considers states since a moment, and returns the time of the first one.
func readiness(t *testing.T, name string, since time.Time, limit time.Duration, want bool) time.Time {
	t.Helper()
	seen, err := clusters.Await(t.Context(), client.ObjectKey{Name: name}, since, limit, func(seen testbed.Sighting) error {
		cluster, _ := seen.Object.(*clusterv1alpha1.Cluster)
		if is := meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); is != want {
			return fmt.Errorf("Ready of %s is %v", name, is)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen.At
}
