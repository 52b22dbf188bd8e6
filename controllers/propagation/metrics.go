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

package propagation

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/decide"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// The labels of all metrics are bounded: kinds, reasons and operations of this
// project, never names of objects or clusters.
var (
	reconcileErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "karmada_direct_reconcile_errors_total",
		Help: "Failed attempts to reconcile an object or to write one of its Works, by kind of the object and reason.",
	}, []string{"kind", "reason"})
	workWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "karmada_direct_work_writes_total",
		Help: "Successful writes to Works, by kind of the owner and operation: create, update, reset, nudge (of a deletion), delete, release.",
	}, []string{"kind", "operation"})
	templateWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "karmada_direct_template_status_writes_total",
		Help: "Successful writes of aggregated status to resources in the control plane, by kind of the object.",
	}, []string{"kind"})
	worksSkipped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "karmada_direct_works_skipped_total",
		Help: "Works that a reconcile did not write because they were already right, by kind of the owner.",
	}, []string{"kind"})
	clusterRows = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "karmada_direct_clusters",
		Help: "Clusters that objects name, by kind of the object and state: applied, failed, pending, unreachable.",
	}, []string{"kind", "state"})
	confirmationSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "karmada_direct_confirmation_seconds",
		Help:    "Seconds from the first write of a revision to a Work until the cluster has confirmed it, by kind of the owner.",
		Buckets: prometheus.ExponentialBuckets(0.025, 2, 16),
	}, []string{"kind"})
)

func init() {
	metrics.Registry.MustRegister(reconcileErrors, workWrites, templateWrites, worksSkipped, clusterRows, confirmationSeconds)
}

// reasonReconcileFailed counts errors that no status reports, for example because the
// status itself cannot be written. The log has them.
const reasonReconcileFailed = "ReconcileFailed"

// gauges holds the state that the metrics of one reconciler need between
// reconciles.
type gauges struct {
	kind string
	mu   sync.Mutex
	rows map[types.NamespacedName]map[string]float64
	// awaited records, by object and Work, which revision was written when. It is
	// dropped with the object.
	awaited map[types.NamespacedName]map[types.NamespacedName]awaited
}

type awaited struct {
	owner    types.UID
	revision string
	since    time.Time
}

func newGauges(kind string) *gauges {
	return &gauges{
		kind:    kind,
		rows:    map[types.NamespacedName]map[string]float64{},
		awaited: map[types.NamespacedName]map[types.NamespacedName]awaited{},
	}
}

// counted replaces the contribution of an object to the number of clusters by
// state; a nil summary removes it.
func (g *gauges) counted(key types.NamespacedName, summary *propagationv1alpha1.Summary) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := map[string]float64{}
	if summary != nil {
		now = map[string]float64{
			"applied": float64(*summary.Applied), "failed": float64(*summary.Failed),
			"pending": float64(*summary.Pending), "unreachable": float64(*summary.Unreachable),
		}
	}
	for _, state := range []string{"applied", "failed", "pending", "unreachable"} {
		clusterRows.WithLabelValues(g.kind, state).Add(now[state] - g.rows[key][state])
	}
	g.rows[key] = now
	if summary == nil {
		delete(g.rows, key)
	}
}

// wrote starts the timer of a revision, unless it is already running.
func (g *gauges) wrote(owner render.Owner, work types.NamespacedName, revision string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := owner.Key()
	if g.awaited[key] == nil {
		g.awaited[key] = map[types.NamespacedName]awaited{}
	}
	if running := g.awaited[key][work]; running.revision != revision || running.owner != owner.UID {
		g.awaited[key][work] = awaited{owner: owner.UID, revision: revision, since: now}
	}
}

// forget removes an object that is gone.
func (g *gauges) forget(key types.NamespacedName) {
	g.counted(key, nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.awaited, key)
}

// confirmed stops the timers of the Works that are confirmed or gone.
func (g *gauges) confirmed(observed *decide.Observed, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	running := g.awaited[observed.Key()]
	for key, started := range running {
		work := observed.Works[key]
		if work == nil || started.owner != observed.Owner.UID {
			delete(running, key)
			continue
		}
		if proof, _ := decide.EvidenceOf(work); proof == decide.Confirmed && render.Revision(work) == started.revision {
			confirmationSeconds.WithLabelValues(g.kind).Observe(now.Sub(started.since).Seconds())
			delete(running, key)
		}
	}
	if len(running) == 0 {
		delete(g.awaited, observed.Key())
	}
}
