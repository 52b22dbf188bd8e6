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

package decide

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
)

// What plans are made of.
var (
	one, two = []string{"member1"}, []string{"member1", "member2"}
	lost     = Cluster{Exists: true, ReadySince: since}
	regained = Cluster{Exists: true, Ready: true, ReadySince: "2026-01-01T11:00:00Z"}
)

func fresh(work *workv1alpha1.Work) { work.CreationTimestamp = metav1.NewTime(now.Add(-time.Second)) }

// resetAt is left by a reset that a write followed.
func resetAt(at time.Time) metav1.Condition {
	return metav1.Condition{Type: propagationv1alpha1.WorkConditionReset, Status: metav1.ConditionTrue, ObservedGeneration: -1, LastTransitionTime: metav1.NewTime(at)}
}

// ended is left by nudges of a deletion, the last of them some time ago.
func ended(count int, ago time.Duration) func(*workv1alpha1.Work) {
	return annotated(propagationv1alpha1.AttemptsAnnotation, attempts{count: count - 1}.next(now.Add(-ago))+endingMark)
}

// wrote has the controller have written a revision into a Work.
func wrote(revision string) func(*workv1alpha1.Work) {
	return annotated(propagationv1alpha1.RevisionAnnotation, revision)
}

// confirmedBefore has a cluster have confirmed an earlier revision of a Work.
func confirmedBefore(work *workv1alpha1.Work) {
	work.Annotations[propagationv1alpha1.ConfirmedRevisionAnnotation] = "18bb57c0aa064257"
}

// rowSince has a row in the status that has said the same for some time.
func rowSince(cluster string, ago time.Duration) sceneOption {
	return func(observed *Observed) {
		observed.Status.Clusters = []propagationv1alpha1.ClusterStatus{{Name: cluster, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
	}
}

// mayBeNeeded is a dependency that objects may require whose dependencies are not known.
func mayBeNeeded(observed *Observed) {
	observed.MayBeNeeded, observed.RetainPoll = func(string) bool { return true }, 2*time.Second
}

// appliedBefore has Karmada have set Applied some time ago.
func appliedBefore(ago time.Duration) func(*workv1alpha1.Work) {
	return func(work *workv1alpha1.Work) {
		work.Status.Conditions = slices.Clone(work.Status.Conditions)
		for i := range work.Status.Conditions {
			work.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now.Add(-ago))
		}
	}
}

func isSuspended(work *workv1alpha1.Work) { work.Spec.SuspendDispatching = ptr.To(true) }

func preserve(work *workv1alpha1.Work) { work.Spec.PreserveResourcesOnDeletion = ptr.To(true) }

func withFinalizer(work *workv1alpha1.Work) {
	work.Finalizers = []string{util.ExecutionControllerFinalizer}
}

// planCases are scenes, each with the steps that it takes.
var planCases = map[string]struct {
	observed *Observed
	want     []string
}{
	"nothing is there yet":                 {scene(two, func(o *Observed) { o.HasFinalizer = false }), []string{"add the finalizer", "create member1", "create member2"}},
	"all is right":                         {scene(two, on("member1", isConfirmed, isHealthy), on("member2", isConfirmed)), nil},
	"written, not confirmed":               {scene(one, on("member1")), nil},
	"the resource changed":                 {scene(two, on("member1", isConfirmed, revision(older)), on("member2", isConfirmed)), []string{"reset and update member1"}},
	"changed before the first attempt":     {scene(one, on("member1", revision(older))), []string{"update member1"}},
	"edited into what is current":          {scene(one, on("member1", isConfirmed, wrote(older))), []string{"reset and update member1"}},
	"written by an earlier version":        {scene(one, on("member1", isConfirmed, wrote(""))), nil},
	"the payload was edited by hand":       {scene(one, on("member1", isConfirmed, revision(""))), []string{"reset and update member1"}},
	"our label was removed by hand":        {scene(one, on("member1", isConfirmed, func(w *workv1alpha1.Work) { w.Labels = nil })), []string{"update member1"}},
	"Karmada's finalizer was removed":      {scene(one, on("member1", isConfirmed, func(w *workv1alpha1.Work) { w.Finalizers = nil })), []string{"update member1"}},
	"the Work is deleted by hand":          {scene(one, on("member1", isConfirmed, terminating(now))), nil},
	"a True of an older attempt":           {scene(one, on("member1", conditions(applied))), []string{"reset member1"}},
	"a True of an unknown attempt":         {scene(one, on("member1", conditions(applied, dispatched))), []string{"reset and nudge member1"}},
	"such a True, suspended since":         {scene(one, suspended, on("member1", isSuspended, conditions(applied, held))), []string{"reset member1"}},
	"such a True, suspended, being held":   {scene(one, suspended, on("member1", isSuspended, conditions(resetAt(now), held))), nil},
	"such a True, suspended now":           {scene(one, suspended, on("member1", conditions(applied, dispatched))), []string{"reset and update member1"}},
	"a True without an answer":             {scene(one, on("member1", isUnanswered)), []string{"reset and nudge member1"}},
	"without an answer, just repeated":     {scene(one, on("member1", isUnanswered, attempted(1, now.Add(-10*time.Second)))), []string{"look again in 5s"}},
	"without an answer, often repeated":    {scene(one, on("member1", isUnanswered, attempted(50, now.Add(-time.Minute)))), []string{"look again in 4m0s"}},
	"without an answer, repeated before":   {scene(one, on("member1", isUnanswered, attempted(50, now.Add(-5*time.Minute)))), []string{"reset and nudge member1"}},
	"without an answer, to be repeated":    {scene(one, asking("again"), on("member1", isUnanswered, attempted(50, now))), []string{"reset and nudge member1"}},
	"without an answer, contact regained":  {scene(one, cluster("member1", regained), on("member1", isUnanswered, attempted(50, now))), []string{"reset and nudge member1"}},
	"without an answer, suspended":         {scene(one, suspended, on("member1", isSuspended, isUnanswered)), []string{"reset member1"}},
	"without an answer, suspended now":     {scene(one, suspended, on("member1", isUnanswered)), []string{"reset and update member1"}},
	"reset, and then nothing written":      {scene(one, on("member1", conditions(ResetConditions(&workv1alpha1.Work{}, "", now)...))), []string{"nudge member1"}},
	"contact regained, not confirmed":      {scene(one, cluster("member1", regained), on("member1")), []string{"nudge member1"}},
	"nudged on contact, and nothing came":  {scene(one, on("member1", attempted(1, now.Add(-time.Minute)))), []string{"look again in 1m15s"}},
	"nudged on contact, and nothing comes": {scene(one, on("member1", attempted(1, now.Add(-3*time.Minute)))), []string{"nudge member1"}},
	"nudged twice, and nothing comes":      {scene(one, on("member1", attempted(2, now.Add(-3*time.Minute)))), []string{"look again in 2m0s"}},
	"nudged before the last reset":         {scene(one, on("member1", attempted(1, now.Add(-time.Hour)), conditions(resetAt(now.Add(-time.Minute))))), nil},
	"contact regained, confirmed":          {scene(one, cluster("member1", regained), on("member1", isConfirmed)), nil},
	"contact regained, suspended":          {scene(one, suspended, cluster("member1", regained), on("member1", isSuspended)), nil},
	"no contact, the resource changed":     {scene(one, cluster("member1", lost), on("member1", isConfirmed, revision(older))), []string{"reset and update member1"}},
	"a fresh refusal":                      {scene(one, on("member1", conditions(dispatched, metav1.Condition{Type: failed.Type, Status: failed.Status, LastTransitionTime: metav1.NewTime(now)}))), []string{"look again in 2s"}},
	"suspension begins":                    {scene(one, suspended, on("member1", isConfirmed)), []string{"update member1"}},
	"suspension ends":                      {scene(one, on("member1", isConfirmed, isSuspended)), []string{"update member1"}},
	"preservation begins":                  {scene(one, preserving, on("member1", isConfirmed)), []string{"update member1"}},
	"cluster not registered":               {scene(one, cluster("member1", Cluster{})), nil},
	"cluster terminating":                  {scene(one, cluster("member1", Cluster{Exists: true, Ready: true, Terminating: true})), nil},
	"cluster terminating, stale Work":      {scene(one, cluster("member1", Cluster{Exists: true, Ready: true, Terminating: true}), on("member1", revision(older))), nil},
	"kind not enabled there":               {scene(two, cluster("member1", Cluster{Exists: true, Ready: true, API: clusterv1alpha1.APIDisabled})), []string{"create member2"}},
	"enablement not known":                 {scene(one, cluster("member1", Cluster{Exists: true, Ready: true, API: clusterv1alpha1.APIUnknown})), []string{"create member1"}},
	"deleted by somebody else":             {scene(two, func(o *Observed) { o.Lost = map[string]time.Time{"member1": now.Add(-time.Second)} }), []string{"create member2", "look again in 2s"}},
	"deleted by somebody else long ago":    {scene(one, func(o *Observed) { o.Lost = map[string]time.Time{"member1": now.Add(-time.Hour)} }), []string{"create member1"}},
	"overrides that fail": {scene(two, func(o *Observed) {
		o.Resource.Renderings = map[string]*Rendering{"member1": {Reason: "OverrideFailed"}}
	}), []string{"create member2"}},
	"an interpreter that fails": {scene(two, func(o *Observed) {
		o.Resource.Renderings = map[string]*Rendering{"member1": {Reason: "RenderFailed", Retry: now.Add(30 * time.Second)}}
	}), []string{"create member2", "look again in 30s"}},
	"a cluster of its own":                      {scene(two, on("member1"), on("member2"), func(o *Observed) { o.Resource.Renderings = map[string]*Rendering{"member1": {Revision: older}} }), []string{"update member1"}},
	"somebody else holds it":                    {scene(two, func(o *Observed) { o.Holders["member1"] = "ResourceBinding shop/web-deployment" }), []string{"create member2", "look again in 3s"}},
	"cluster taken off the list":                {scene(one, on("member1", isConfirmed), on("member2", isConfirmed, isHealthy), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, and preserved":                  {scene(one, preserving, on("member1", isConfirmed, preserve), on("member2", isConfirmed), cluster("member2", readyCluster)), []string{"preserve=true and delete member2"}},
	"taken off before it settled":               {scene(one, on("member1", isConfirmed), on("member2", fresh), cluster("member2", readyCluster)), []string{"look again in 9s"}},
	"taken off, applied and not reported":       {scene(one, on("member1", isConfirmed), on("member2", isConfirmed, appliedBefore(15*time.Second)), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, applied by a clock ahead":       {scene(one, on("member1", isConfirmed), on("member2", isConfirmed, appliedBefore(-5*time.Second)), cluster("member2", readyCluster)), []string{"look again in 1m10s"}},
	"taken off, applied by a clock behind":      {scene(one, rowSince("member2", 15*time.Second), on("member1", isConfirmed), on("member2", isConfirmed, appliedBefore(time.Hour)), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, applied long ago":               {scene(one, rowSince("member2", 66*time.Second), on("member1", isConfirmed), on("member2", isConfirmed, appliedBefore(time.Hour)), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, applied, reset, suspended":      {scene(one, on("member1", isConfirmed), on("member2", confirmedBefore, isSuspended, conditions(resetAt(now.Add(-15*time.Second)))), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, never reported":                 {scene(one, on("member1", isConfirmed), on("member2", isConfirmed, appliedBefore(66*time.Second)), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, reset and not reported":         {scene(one, on("member1", isConfirmed), on("member2", confirmedBefore, conditions(resetAt(now.Add(-15*time.Second)))), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, reset, refused, not reported":   {scene(one, on("member1", isConfirmed), on("member2", confirmedBefore, conditions(resetAt(now.Add(-15*time.Second)), dispatched, failed)), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, never confirmed":                {scene(one, on("member1", isConfirmed), on("member2", conditions(resetAt(now.Add(-15*time.Second)))), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, applied without an answer":      {scene(one, on("member1", isConfirmed), on("member2", isUnanswered, appliedBefore(15*time.Second)), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, unproven, reset":                {scene(one, on("member1", isConfirmed), on("member2", isUnanswered, wasReset(20*time.Second), wasReset(15*time.Second)), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, unproven, reset, refused":       {scene(one, on("member1", isConfirmed), on("member2", isUnanswered, wasReset(15*time.Second), alsoRefused), cluster("member2", readyCluster)), []string{"look again in 50s"}},
	"taken off, unproven, reset long ago":       {scene(one, on("member1", isConfirmed), on("member2", isUnanswered, wasReset(66*time.Second)), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, refused, reset":                 {scene(one, on("member1", isConfirmed), on("member2", isRefused, wasReset(15*time.Second)), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, just nudged on contact":         {scene(one, on("member1", isConfirmed), on("member2", attempted(1, now.Add(-time.Second))), cluster("member2", readyCluster)), []string{"look again in 9s"}},
	"taken off, nudged on contact":              {scene(one, on("member1", isConfirmed), on("member2", attempted(1, now.Add(-11*time.Second))), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, being deleted, may be needed":   {scene(one, mayBeNeeded, on("member1", isConfirmed), on("member2", terminating(now.Add(-time.Hour))), cluster("member2", regained)), []string{"nudge the deletion on member2"}},
	"taken off, may be needed":                  {scene(one, mayBeNeeded, on("member1", isConfirmed), on("member2", isHealthy), cluster("member2", readyCluster)), []string{"look again in 2s"}},
	"taken off, refused a while ago":            {scene(one, on("member1", isConfirmed), on("member2", isRefused, appliedBefore(15*time.Second)), cluster("member2", readyCluster)), []string{"delete member2"}},
	"taken off, out of reach":                   {scene(one, on("member1", isConfirmed), on("member2", fresh), cluster("member2", lost)), []string{"delete member2"}},
	"resource missing":                          {scene(two, problem(Problem{}), on("member1", isConfirmed)), nil},
	"resource missing, cluster removed":         {scene(one, problem(Problem{}), on("member1", isConfirmed), on("member2", isHealthy), cluster("member2", readyCluster)), []string{"delete member2"}},
	"kind unknown":                              {scene(one, problem(Problem{Poll: KindPoll}), on("member1")), []string{"look again in 15s"}},
	"deleting":                                  {scene(nil, deleting, on("member1", isHealthy), cluster("member1", readyCluster)), []string{"delete member1"}},
	"deleting, under way":                       {scene(nil, deleting, on("member1", terminating(now)), cluster("member1", readyCluster)), nil},
	"deleting, contact regained":                {scene(nil, deleting, on("member1", terminating(now.Add(-90*time.Minute))), cluster("member1", regained)), []string{"nudge the deletion on member1"}},
	"deleting, contact lost before":             {scene(nil, deleting, on("member1", terminating(now)), cluster("member1", regained)), []string{"look again in 10s"}},
	"deleting, nudged, and nothing came":        {scene(nil, deleting, on("member1", terminating(now.Add(-time.Hour)), ended(1, time.Minute)), cluster("member1", readyCluster)), []string{"look again in 1m15s"}},
	"deleting, nudged, and nothing comes":       {scene(nil, deleting, on("member1", terminating(now.Add(-time.Hour)), ended(1, 3*time.Minute)), cluster("member1", readyCluster)), []string{"nudge the deletion on member1"}},
	"deleting, nudged often":                    {scene(nil, deleting, on("member1", terminating(now.Add(-time.Hour)), ended(maxIgnored, time.Hour)), cluster("member1", readyCluster)), nil},
	"deleting, by a clock that is behind":       {scene(nil, deleting, on("member1", terminating(now.Add(-20*time.Second))), cluster("member1", regained)), []string{"nudge the deletion on member1"}},
	"vanished":                                  {scene(nil, deleting, func(o *Observed) { o.Vanished = true; o.HasFinalizer = false }, on("member1", isHealthy, preserve), cluster("member1", readyCluster)), []string{"delete member1"}},
	"deleting, done":                            {scene(nil, deleting), []string{"remove the finalizer"}},
	"deleting, without our finalizer":           {scene(nil, deleting, func(o *Observed) { o.HasFinalizer = false }), nil},
	"deleting, out of reach":                    {scene(nil, deleting, on("member1", terminating(now)), cluster("member1", lost)), nil},
	"deleting, cluster gone":                    {scene(nil, deleting, on("member1", terminating(now))), []string{"remove the finalizer"}},
	"deleting, abandoned":                       {scene(nil, deleting, func(o *Observed) { o.Abandon = true }, on("member1", terminating(now)), cluster("member1", lost)), []string{"remove the finalizer", "abandon member1"}},
	"abandoned, but one is in reach":            {scene(nil, deleting, func(o *Observed) { o.Abandon = true }, on("member1", terminating(now)), cluster("member1", lost), on("member2", terminating(now)), cluster("member2", readyCluster)), nil},
	"preserved, and it hangs":                   {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(-time.Minute))), cluster("member1", readyCluster)), []string{"nudge the deletion on member1", "look again in 3s"}},
	"preserved, by a clock that is behind":      {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(-4*time.Second))), cluster("member1", readyCluster)), []string{"nudge the deletion on member1", "look again in 3s"}},
	"preserved, and not hanging yet":            {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now)), cluster("member1", readyCluster)), []string{"look again in 3s"}},
	"preserved, the cluster out of reach":       {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(-time.Hour))), cluster("member1", lost)), nil},
	"preserved, nudged a moment ago":            {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(-time.Hour)), annotated(propagationv1alpha1.AttemptsAnnotation, attempts{}.next(now.Add(-time.Second))+endingMark)), cluster("member1", readyCluster)), []string{"look again in 2s"}},
	"preserved, by a clock that is ahead":       {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(time.Hour))), cluster("member1", readyCluster)), []string{"nudge the deletion on member1", "look again in 3s"}},
	"preserved, nudged by a clock behind":       {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(time.Hour)), annotated(propagationv1alpha1.AttemptsAnnotation, attempts{}.next(now.Add(-time.Second))+endingMark)), cluster("member1", readyCluster)), []string{"look again in 2s"}},
	"preserved, nudged, and it hangs":           {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(time.Hour)), annotated(propagationv1alpha1.AttemptsAnnotation, attempts{count: 1}.next(now.Add(-releaseTime))+endingMark)), cluster("member1", readyCluster)), []string{"release member1"}},
	"preserved, nudged on contact, it hangs":    {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(-time.Hour)), ended(1, releaseTime)), cluster("member1", readyCluster)), []string{"nudge the deletion on member1", "look again in 3s"}},
	"preserved, retried before the deletion":    {scene(nil, deleting, preserving, on("member1", preserve, withFinalizer, terminating(now.Add(time.Hour)), attempted(1, now.Add(-time.Second))), cluster("member1", readyCluster)), []string{"nudge the deletion on member1", "look again in 3s"}},
	"deleted by hand, contact regained":         {scene(one, cluster("member1", regained), on("member1", terminating(now.Add(-90*time.Minute)))), []string{"nudge the deletion on member1"}},
	"refused a while ago":                       {scene(one, on("member1", isRefused)), []string{"nudge member1"}},
	"refused, retried a moment ago":             {scene(one, on("member1", isRefused, attempted(2, now.Add(-time.Second)))), []string{"look again in 44s"}},
	"refused, retried many times":               {scene(one, on("member1", isRefused, attempted(50, now.Add(-time.Minute)))), []string{"look again in 4m0s"}},
	"refused, retried and due":                  {scene(one, on("member1", isRefused, attempted(50, now.Add(-5*time.Minute)))), []string{"nudge member1"}},
	"refused anew after a retry":                {scene(one, on("member1", refusedAt(now.Add(-3*time.Second)), attempted(50, now.Add(-time.Minute)))), []string{"look again in 2s"}},
	"refused by a clock that is ahead":          {scene(one, on("member1", refusedAt(now.Add(time.Hour)), attempted(1, now.Add(-10*time.Second)))), []string{"look again in 5s"}},
	"refused, the cluster out of reach":         {scene(one, cluster("member1", lost), on("member1", isRefused)), nil},
	"refused, suspended":                        {scene(one, suspended, on("member1", isRefused, isSuspended)), nil},
	"a retry is asked for":                      {scene(one, asking("now"), on("member1", isRefused, attempted(50, now))), []string{"nudge member1"}},
	"a retry was asked for and made":            {scene(one, asking("now"), on("member1", isRefused, attempted(2, now.Add(-time.Second)), annotated(propagationv1alpha1.RetryAnnotation, "now"))), []string{"look again in 44s"}},
	"a retry is asked for, all is right":        {scene(one, asking("now"), on("member1", isConfirmed)), nil},
	"re-created on the member":                  {scene(one, on("member1", isRecreated)), []string{"reset and nudge member1"}},
	"re-created, nudged a moment ago":           {scene(one, on("member1", isRecreated, attempted(1, now.Add(-time.Second)))), []string{"look again in 14s"}},
	"another object of that name":               {scene(one, on("member1", isConfirmed, isHealthy, payload("0 u1 "+elsewhere))), []string{"delete member1"}},
	"the same object in another group":          {scene(one, ofUID("u1"), on("member1", isConfirmed, isHealthy, payload("0 u1 "+elsewhere))), []string{"reset and update member1"}},
	"created anew, and the cluster refuses it":  {scene(one, ofUID("u2"), on("member1", isInvalid, isHealthy, payload("0 u2 "+here), annotated(propagationv1alpha1.SupersedesAnnotation, "u1"))), []string{"delete member1"}},
	"created anew, refused, to be preserved":    {scene(one, preserving, ofUID("u2"), on("member1", preserve, isInvalid, isHealthy, payload("0 u2 "+here), annotated(propagationv1alpha1.SupersedesAnnotation, "u1"))), []string{"preserve=false and delete member1"}},
	"created anew, refused for another reason":  {scene(one, ofUID("u2"), on("member1", isRefused, payload("0 u2 "+here), annotated(propagationv1alpha1.SupersedesAnnotation, "u1"))), []string{"nudge member1"}},
	"created anew, the new one holds data":      {scene(one, ofUID("u2"), on("member1", isInvalid, payload("0 u2 "+here+"!"), annotated(propagationv1alpha1.SupersedesAnnotation, "u1"))), []string{"nudge member1"}},
	"created anew, the old one holds data":      {scene(one, ofUID("u2"), on("member1", isInvalid, payload("0 u2 "+here), annotated(propagationv1alpha1.SupersedesAnnotation, "u1!"))), []string{"nudge member1"}},
	"created anew, and confirmed":               {scene(one, ofUID("u2"), on("member1", isConfirmed, isHealthy, payload("0 u2 "+here), annotated(propagationv1alpha1.SupersedesAnnotation, "u1"))), []string{"mark superseded on member1"}},
	"invalid, and not created anew":             {scene(one, ofUID("u2"), on("member1", isInvalid, payload("0 u2 "+here))), []string{"nudge member1"}},
	"created anew, the cluster is out of reach": {scene(one, cluster("member1", lost), ofUID("u2"), on("member1", isInvalid, payload("0 u2 "+here), annotated(propagationv1alpha1.SupersedesAnnotation, "u1"))), nil},
	"a Namespace that Karmada takes over":       {scene(one, func(o *Observed) { o.Resource.ClaimedBy = namespaceSynchronization }, on("member1", isConfirmed, isHealthy)), []string{"delete member1"}},
	"refused by the API server":                 {scene(two, setback("member1", "write "+current+"  1", now.Add(time.Second))), []string{"create member2", "look again in 1s"}},
	"refused by the API server, and due":        {scene(two, setback("member1", "write "+current+"  1", now)), []string{"create member1", "create member2"}},
	"refused by the API server, then changed":   {scene(one, setback("member1", "write "+older+"  1", now.Add(time.Second))), []string{"create member1"}},
	"a removal that was refused":                {scene(nil, deleting, on("member1", isHealthy), on("member2", isHealthy), cluster("member1", readyCluster), cluster("member2", readyCluster), setback("member1/uid-member1web", "remove uid-member1web", now.Add(time.Second))), []string{"delete member2", "look again in 1s"}},
	"a refused removal, the cluster gone":       {scene(nil, deleting, on("member1", isHealthy), cluster("member1", Cluster{}), setback("member1/uid-member1web", "remove uid-member1web", now.Add(time.Second))), []string{"look again in 1s"}},
}

func TestNewPlan(t *testing.T) {
	for name, tc := range planCases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, steps(NewPlan(tc.observed))); diff != "" {
				t.Errorf("NewPlan() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestContactStartsToCountAnew: a deletion is nudged again if Karmada ignores the nudge on
// contact, however often the controller has nudged the Work before.
func TestContactStartsToCountAnew(t *testing.T) {
	for name, before := range map[string]func(*workv1alpha1.Work){
		"refused many times": attempted(50, now.Add(-2*time.Hour)), "ended many times": ended(maxIgnored, 2*time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			observed := scene(nil, deleting, on("member1", terminating(now.Add(-90*time.Minute)), before), cluster("member1", regained))
			for round := range maxIgnored {
				plan := NewPlan(observed)
				if len(plan.Removals) != 1 || !plan.Removals[0].Nudge {
					t.Fatalf("round %d: the plan is to %v", round, plan.Steps())
				}
				maps.Copy(plan.Removals[0].Work.Annotations, plan.Removals[0].Notes)
				observed.Now = observed.Now.Add(5 * time.Minute)
			}
			if plan := NewPlan(observed).Steps(); len(plan) > 0 {
				t.Errorf("at last, the plan is to %v", plan)
			}
		})
	}
}

// everyScene calls visit with every combination of states of a cluster, its Work and
// the resource.
func everyScene(visit func(name string, observed *Observed)) {
	clusters := map[string]Cluster{
		"ready": readyCluster, "gone": {}, "lost": {Exists: true, ReadySince: since},
		"regained":    {Exists: true, Ready: true, ReadySince: "2026-01-01T11:00:00Z"},
		"terminating": {Exists: true, Ready: true, Terminating: true, ReadySince: since},
		"disabled":    {Exists: true, Ready: true, API: clusterv1alpha1.APIDisabled, ReadySince: since},
	}
	works := map[string][]func(*workv1alpha1.Work){
		"none": nil, "pending": {}, "confirmed": {isConfirmed}, "healthy": {isConfirmed, isHealthy},
		"unhealthy": {isConfirmed, reports(workv1alpha1.ResourceUnhealthy)}, "refused": {isRefused},
		"premature": {conditions(applied)}, "ambiguous": {conditions(applied, dispatched)},
		"old": {revision(older), isConfirmed, isHealthy}, "edited": {revision(""), isConfirmed},
		"suspended":   {isConfirmed, isSuspended},
		"terminating": {isConfirmed, terminating(now)},
	}
	resources := map[string]sceneOption{
		"there": func(*Observed) {}, "missing": problem(Problem{Reason: propagationv1alpha1.ReasonResourceNotFound}),
		"unreadable": problem(Problem{Reason: propagationv1alpha1.ReasonResourceReadFailed, Err: fmt.Errorf("timeout")}),
		"unknown":    problem(Problem{Reason: propagationv1alpha1.ReasonResourceKindNotFound, Stalled: true}),
	}
	intents := map[string]sceneOption{
		"kept": func(*Observed) {}, "held": func(o *Observed) { o.Holders["member1"] = "somebody" },
		"suspended": suspended, "preserved": preserving, "deleted": deleting,
		"withdrawn": func(o *Observed) { o.Spec.Clusters = nil },
	}
	for clusterName, state := range clusters {
		for workName, changes := range works {
			for resourceName, resource := range resources {
				for intentName, intent := range intents {
					work := func(*Observed) {}
					if workName != "none" {
						work = on("member1", changes...)
					}
					observed := scene([]string{"member1"}, cluster("member1", state), work, resource, intent)
					visit(fmt.Sprintf("cluster %s, Work %s, resource %s, %s", clusterName, workName, resourceName, intentName), observed)
				}
			}
		}
	}
}

// TestNothingIsLost checks every plan against the safety rules.
func TestNothingIsLost(t *testing.T) {
	count := 0
	everyScene(func(name string, observed *Observed) {
		count++
		plan, wanted := NewPlan(observed), len(observed.Targets) > 0
		state, problem := observed.Clusters["member1"], observed.Resource.Problem
		switch {
		case wanted && len(plan.Removals) > 0:
			t.Errorf("%s: a wanted Work is removed", name)
		case problem != nil && slices.ContainsFunc(plan.Writes, func(write Write) bool { return write.Update || write.Live == nil }):
			t.Errorf("%s: content is written without a resource", name)
		case len(observed.Holders) > 0 && len(plan.Writes) > 0:
			t.Errorf("%s: somebody else's Work is written", name)
		case (!state.Exists || state.Terminating) && len(plan.Writes) > 0:
			t.Errorf("%s: a Work is written for a cluster on its way out", name)
		case !wanted && len(plan.Writes) > 0:
			t.Errorf("%s: a Work is written that nobody wants", name)
		case plan.RemoveFinalizer && state.Exists && !state.Terminating && len(observed.Works) > 0:
			t.Errorf("%s: the finalizer is removed before the cluster is cleaned up", name)
		}
		if slices.ContainsFunc(plan.Removals, func(removal Removal) bool { return removal.Work.UID == "" }) {
			t.Errorf("%s: a Work is deleted without knowing its UID", name)
		}
	})
	t.Logf("%d scenes", count)
}

// TestPlansConverge carries out every plan and plans again: what is right must not
// be written again.
func TestPlansConverge(t *testing.T) {
	everyScene(func(name string, observed *Observed) {
		for range 3 {
			carryOut(observed, NewPlan(observed))
		}
		if again := NewPlan(observed); len(again.Writes)+len(again.Removals) > 0 {
			t.Errorf("%s: still to do after three rounds: %v", name, steps(again))
		}
	})
}

// carryOut applies a plan to the scene as the controller does to the API server.
func carryOut(observed *Observed, plan *Plan) {
	for _, write := range plan.Writes {
		key := observed.WorkKey(write.Target.Cluster)
		if write.Live == nil {
			observed.Works[key] = liveWork(observed, write.Target.Cluster, observed.Spec.Resource.Name)
		}
		work := observed.Works[key]
		if write.Reset {
			work.Status.Conditions = ResetConditions(work, confirmedRevision(work), now)
			work.Generation--
		}
		if write.Nudge {
			maps.Copy(work.Annotations, write.AllNotes())
			work.Generation++
		}
		if write.Update {
			setRevision(work, observed.Resource.Revision)
		}
		if write.Update || write.Terms {
			render.Claim(work, observed.Owner, write.Target)
			work.Spec.SuspendDispatching = &write.Target.Suspend
			work.Spec.PreserveResourcesOnDeletion = &write.Target.Preserve
		}
	}
	for _, removal := range plan.Removals {
		if removal.Nudge {
			maps.Copy(removal.Work.Annotations, removal.Notes)
			continue
		}
		delete(observed.Works, types.NamespacedName{Namespace: removal.Work.Namespace, Name: removal.Work.Name})
	}
}

// The log says why each write and each removal is made.
func TestEveryStepHasAReason(t *testing.T) {
	everyScene(func(name string, observed *Observed) {
		plan := NewPlan(observed)
		for i := range plan.Writes {
			if plan.Writes[i].Why == "" {
				t.Errorf("%s: no reason for %s", name, plan.Writes[i].String())
			}
		}
		for i := range plan.Removals {
			if plan.Removals[i].Why == "" {
				t.Errorf("%s: no reason for %s", name, plan.Removals[i].String())
			}
		}
	})
}

// docs/logging.md explains every reason of a write.
func TestReasonsOfWritesAreExplained(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "logging.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("steps.go")
	if err != nil {
		t.Fatal(err)
	}
	whys := regexp.MustCompile(`Why = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(whys) < 15 {
		t.Fatalf("found %d reasons only", len(whys))
	}
	for _, why := range whys {
		if !strings.Contains(string(page), "| `"+string(why[1])+"` |") {
			t.Errorf("docs/logging.md does not explain %s", why[1])
		}
	}
}
