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
		Help: "Clusters that objects name, by kind of the object and state: applied, failed, pending, waiting (for their turn in a rollout), unreachable.",
	}, []string{"kind", "state"})
	rollouts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "karmada_direct_rollouts",
		Help: "Objects with a rollout, by kind of the object and phase: that of status.rollout, or AwaitingApproval or Paused.",
	}, []string{"kind", "phase"})
	confirmationSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "karmada_direct_confirmation_seconds",
		Help:    "Seconds from the first write of a revision to a Work until the cluster has confirmed it, by kind of the owner.",
		Buckets: prometheus.ExponentialBuckets(0.025, 2, 16),
	}, []string{"kind"})
)

func init() {
	metrics.Registry.MustRegister(reconcileErrors, workWrites, templateWrites, worksSkipped, clusterRows, rollouts, confirmationSeconds)
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
	// phases has, by object, the phase of its rollout.
	phases map[types.NamespacedName]string
	// awaited records, by object and Work, which revision was written when. It is
	// dropped with the object.
	awaited map[types.NamespacedName]map[types.NamespacedName]awaited
}

type awaited struct {
	owner    types.UID
	revision string
	since    time.Time
}

// rolloutPhases are the phases by which rollouts are counted.
var rolloutPhases = []string{
	string(propagationv1alpha1.RolloutPhaseProgressing), phaseAwaitingApproval, phasePaused, string(propagationv1alpha1.RolloutPhaseCompleted),
	string(propagationv1alpha1.RolloutPhaseFailed), string(propagationv1alpha1.RolloutPhaseRollingBack), string(propagationv1alpha1.RolloutPhaseRolledBack),
	string(propagationv1alpha1.RolloutPhaseReverting), string(propagationv1alpha1.RolloutPhaseStateLost),
}

// The phases of rollouts that wait for a user.
const (
	phaseAwaitingApproval = "AwaitingApproval"
	phasePaused           = "Paused"
)

func newGauges(kind string) *gauges {
	if kind != render.DependencyKind {
		// A metric without a series is not served at all.
		for _, phase := range rolloutPhases {
			rollouts.WithLabelValues(kind, phase)
		}
	}
	return &gauges{
		kind:    kind,
		rows:    map[types.NamespacedName]map[string]float64{},
		phases:  map[types.NamespacedName]string{},
		awaited: map[types.NamespacedName]map[types.NamespacedName]awaited{},
	}
}

// clusterStates are the states by which clusters are counted.
var clusterStates = []string{"applied", "failed", "pending", "waiting", "unreachable"}

// counted replaces the contribution of an object to the number of clusters by state, and
// to the number of rollouts by phase. A nil status removes it.
func (g *gauges) counted(key types.NamespacedName, status *propagationv1alpha1.PropagationStatus, rows []propagationv1alpha1.ClusterStatus) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, phase := map[string]float64{}, ""
	if status != nil {
		// Clusters that wait for their turn have nothing to answer.
		waiting := waitingClusters(rows)
		now = map[string]float64{
			"applied": float64(*status.Summary.Applied), "failed": float64(*status.Summary.Failed),
			"pending": float64(*status.Summary.Pending) - waiting, "waiting": waiting, "unreachable": float64(*status.Summary.Unreachable),
		}
		phase = countedPhase(status.Rollout)
	}
	for _, state := range clusterStates {
		clusterRows.WithLabelValues(g.kind, state).Add(now[state] - g.rows[key][state])
	}
	if before := g.phases[key]; before != phase {
		g.countPhase(before, -1)
		g.countPhase(phase, 1)
	}
	g.rows[key], g.phases[key] = now, phase
	if status == nil {
		delete(g.rows, key)
	}
	if phase == "" {
		delete(g.phases, key)
	}
}

func (g *gauges) countPhase(phase string, change float64) {
	if phase != "" {
		rollouts.WithLabelValues(g.kind, phase).Add(change)
	}
}

// waitingClusters counts the clusters that wait for their turn in a rollout.
func waitingClusters(rows []propagationv1alpha1.ClusterStatus) float64 {
	waiting := 0
	for i := range rows {
		if rows[i].Reason == propagationv1alpha1.ReasonWaiting {
			waiting++
		}
	}
	return float64(waiting)
}

// countedPhase is the phase by which a rollout is counted; empty if there is none. A
// rollout in progress that waits for a user is counted as such. One that is complete has
// failed if too many clusters that came late have failed.
func countedPhase(status *propagationv1alpha1.RolloutStatus) string {
	if status == nil {
		return ""
	}
	switch status.Reason {
	case propagationv1alpha1.ReasonRolloutAwaitingApproval:
		return phaseAwaitingApproval
	case propagationv1alpha1.ReasonRolloutPaused:
		return phasePaused
	case propagationv1alpha1.ReasonRolloutFailed:
		return string(propagationv1alpha1.RolloutPhaseFailed)
	}
	return string(status.Phase)
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
	g.counted(key, nil, nil)
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
