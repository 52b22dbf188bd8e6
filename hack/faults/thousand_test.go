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
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/faults/agents"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const (
	// reporting is how long all clusters together take to report, regardless of their
	// number.
	reporting = 10 * time.Second
	// maxExponent limits how the bytes of status writes grow with the number of
	// clusters. An exponent of 1 means proportional growth, and 2 means that a status
	// of N rows is written N times.
	maxExponent = 1.2
)

// Up to a thousand clusters report one after the other. The bytes of status writes
// must grow with the number of clusters, not with its square, and the status must be
// written at most about once a second.
func TestThousandClustersReport(t *testing.T) {
	ns := newNamespace(t)
	stops(t, karmadaControllers)
	played := &agents.Agents{
		Client: karmada, Clusters: agents.Names("played", 1000), Writers: 32,
		Enablements: []clusterv1alpha1.APIEnablement{{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}}},
	}
	if err := played.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := played.Leave(context.Background()); err != nil {
			t.Error(err)
		}
	})
	counted := newReplica(t, "thousand")
	withoutController(t)
	if err := counted.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counted.Terminate() })
	points := []point{}
	for _, count := range []int{64, 256, 1000} {
		points = append(points, ns.reports(counted.audit, played, count))
	}
	exponent := fit(points)
	if exponent > maxExponent {
		t.Errorf("status bytes grow with the number of clusters to the power of %.2f", exponent)
	}
	measured(t, "growth of the status bytes with the number of clusters N: bytes ~ N to the power of", fmt.Sprintf("%.2f", exponent), fmt.Sprintf("≤ %.1f", maxExponent))
}

// point is the number of bytes written for a number of clusters.
type point struct{ clusters, bytes float64 }

// reports propagates a resource to some clusters and counts the status writes until
// all clusters have reported.
func (ns *Namespace) reports(audit *testbed.Audit, played *agents.Agents, count int) point {
	ns.T.Helper()
	name := fmt.Sprintf("clusters-%d", count)
	tick := time.NewTicker(reporting / time.Duration(count))
	defer tick.Stop()
	played.Pace = func(ctx context.Context) error {
		select {
		case <-tick.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	serving, stop := context.WithCancel(ns.Ctx)
	served := make(chan error, 1)
	go func() { served <- played.Serve(serving) }()

	revision, began := ns.Writes(name, "for many")
	ns.Propagates(name, testbed.ConfigMap(name, "")).ToClusters(played.Clusters[:count]...)
	done := ns.Propagation(name).Until(began, readyEverywhere)
	took := done.Sub(began)
	writes := audit.Since(began, func(w testbed.Write) bool {
		return w.Name == name && w.Resource == "directpropagations/status" && w.Status < 300
	})
	bytes := 0
	for _, w := range writes {
		bytes += w.Bytes
	}
	if bound := int(took.Seconds()) + 4; len(writes) > bound {
		ns.T.Errorf("%d status writes in %v, more than %d", len(writes), took, bound)
	}
	if state := ns.Propagation(name).Latest(); *state.Status.Summary.Applied != int32(count) || testbed.RowOf(state, played.Clusters[0]).Revision != revision {
		ns.T.Errorf("the object is Ready, but its summary is %+v", state.Status.Summary)
	}
	measured(ns.T, fmt.Sprintf("%d clusters report one after the other, in %v: status", count, took.Round(time.Second/10)),
		fmt.Sprintf("%d writes, %d KiB", len(writes), bytes/1024), fmt.Sprintf("≤ %d writes: one a second, and 4", int(took.Seconds())+4))
	at := ns.Propagation(name).Deletes()
	ns.Propagation(name).Goes(at)
	stop()
	if err := <-served; err != nil {
		ns.T.Error(err)
	}
	if err := karmada.Delete(ns.Ctx, ns.configMap(name)); client.IgnoreNotFound(err) != nil {
		ns.T.Error(err)
	}
	return point{clusters: float64(count), bytes: float64(bytes)}
}

func readyEverywhere(object *DirectPropagation) error {
	if condition := testbed.ConditionOf(object, propagationv1alpha1.ConditionReady); condition.Status != metav1.ConditionTrue {
		return fmt.Errorf("Ready is %+v", condition)
	}
	return nil
}

// fit returns the slope of the regression line through the logarithms of the points,
// which is the exponent of the growth.
func fit(points []point) float64 {
	var sumX, sumY, sumXX, sumXY float64
	for _, p := range points {
		x, y := math.Log(p.clusters), math.Log(p.bytes)
		sumX, sumY, sumXX, sumXY = sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
	}
	n := float64(len(points))
	return (n*sumXY - sumX*sumY) / (n*sumXX - sumX*sumX)
}
