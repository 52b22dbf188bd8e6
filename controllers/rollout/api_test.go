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

package rollout

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// fill sets every field of a value to something random. With luck below 1, some fields
// keep their zero value. It fails for a kind of field that it does not know, so that
// nothing that is added remains untested.
func fill(t *testing.T, random *rand.Rand, luck float64, value reflect.Value) {
	t.Helper()
	switch at := value.Addr().Interface().(type) {
	case *metav1.Time:
		*at = metav1.Unix(1_700_000_000+random.Int64N(1_000_000), 0)
		return
	case *Phase:
		*at = []Phase{Progressing, Completed, Failed, RollingBack, RolledBack, Reverting, StateLost}[random.IntN(7)]
		return
	case *TurnKind:
		*at = []TurnKind{Late, Relapse}[random.IntN(2)]
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			if random.Float64() < luck {
				fill(t, random, luck, value.Field(i))
			}
		}
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(t, random, luck, value.Elem())
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1+random.IntN(3), 3))
		for i := range value.Len() {
			fill(t, random, luck, value.Index(i))
		}
	case reflect.String:
		value.SetString([]string{"canary", "rest", "18bb57c0aa064257", "71f5fbd608ae0205"}[random.IntN(4)])
	case reflect.Int32:
		value.SetInt(1 + random.Int64N(1000))
	case reflect.Bool:
		value.SetBool(true)
	default:
		t.Fatalf("no random values of type %s", value.Type())
	}
}

// sent is a value as the API server returns it.
func sent[T any](t *testing.T, value *T) *T {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	got := new(T)
	if err := json.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestStatusRoundTrip: what is read is what was recorded, in every field.
func TestStatusRoundTrip(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed makes the values repeatable
		luck := 1.0
		if seed%4 != 0 {
			luck = 0.7
		}
		status := &Status{}
		fill(t, random, luck, reflect.ValueOf(status).Elem())
		if luck == 1 {
			checkFull(t, "RolloutStatus", reflect.ValueOf(status.API()).Elem())
		}
		if diff := cmp.Diff(status, StatusOf(sent(t, status.API()))); diff != "" {
			t.Fatalf("seed %d (-recorded +read):\n%s", seed, diff)
		}
	}
	if StatusOf(nil) != nil || (*Status)(nil).API() != nil {
		t.Error("nothing has become something")
	}
}

// checkFull checks that no field of the API has been forgotten.
func checkFull(t *testing.T, path string, value reflect.Value) {
	t.Helper()
	if value.IsZero() {
		t.Fatalf("%s is empty", path)
	}
	switch {
	case value.Type() == reflect.TypeFor[metav1.Time](), value.Type() == reflect.TypeFor[intstr.IntOrString]():
	case value.Kind() == reflect.Pointer:
		checkFull(t, path, value.Elem())
	case value.Kind() == reflect.Slice:
		for i := range value.Len() {
			checkFull(t, path+"[]", value.Index(i))
		}
	case value.Kind() == reflect.Struct:
		for i := range value.NumField() {
			checkFull(t, path+"."+value.Type().Field(i).Name, value.Field(i))
		}
	}
}

// TestConversionsShareNothing: a change of one form does not show in the other.
func TestConversionsShareNothing(t *testing.T) {
	status := &Status{}
	fill(t, rand.New(rand.NewPCG(1, 0)), 1, reflect.ValueOf(status).Elem()) //nolint:gosec // a seed makes the values repeatable
	recorded, before := status.API(), status.API()
	read := StatusOf(recorded)
	read.Failure.ClusterNames[0], read.Turns[0].ClusterNames[0] = "changed", "changed"
	*read.Stages[0].StartedAt, *read.Turns[0].HealthySince = metav1.Time{}, metav1.Time{}
	if diff := cmp.Diff(before, recorded); diff != "" {
		t.Errorf("a change of what was read changes what is recorded (-before +after):\n%s", diff)
	}
	recorded.Failure.ClusterNames[0], recorded.Turns[0].ClusterNames[0] = "changed", "changed"
	*recorded.Stages[0].PassedAt, *recorded.Turns[0].StoppedAt = metav1.Time{}, metav1.Time{}
	if diff := cmp.Diff(before, status.API()); diff != "" {
		t.Errorf("a change of what is recorded changes the decision (-before +after):\n%s", diff)
	}
}

// TestProgress: the column of kubectl get.
func TestProgress(t *testing.T) {
	stages := []StageStatus{{Name: "canary", Clusters: 2, Ready: 1, Updated: 2}, {Name: "default", Clusters: 10}}
	for want, status := range map[string]*Status{
		"canary 1/2":   {Phase: Progressing, Stage: "canary", Stages: stages},
		"default 0/10": {Phase: Progressing, Stage: "default", Stages: stages},
		"Progressing":  {Phase: Progressing, Stages: stages},
		"Failed":       {Phase: Failed, Stages: stages},
		"RolledBack":   {Phase: RolledBack, Stages: stages},
		"Completed":    {Phase: Completed, Stages: stages},
	} {
		if got := status.API().Progress; got != want {
			t.Errorf("progress is %q, want %q", got, want)
		}
	}
}

// TestStrategyOf: every field of the spec reaches the decision.
func TestStrategyOf(t *testing.T) {
	percent, five := ptr.To(intstr.FromString("25%")), ptr.To(intstr.FromInt32(5))
	spec := &propagationv1alpha1.Rollout{
		MaxConcurrency: percent, MaxFailures: five, MinReadySeconds: ptr.To[int32](1), SoakSeconds: ptr.To[int32](2), ProgressDeadlineSeconds: ptr.To[int32](3),
		OnFailure: FailureRollback, Paused: ptr.To(true),
		Stages: []propagationv1alpha1.RolloutStage{{
			Name: "canary", ClusterNames: []string{"eu-1"}, MaxConcurrency: five, SoakSeconds: ptr.To[int32](4), Approval: ApprovalRequired,
			ClusterSelector: &propagationv1alpha1.StageSelector{
				MatchLabels:      map[string]string{"ring": "canary"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}}},
			},
		}, {Name: "rest", ClusterNames: []string{"us-1"}}},
	}
	checkFull(t, "Rollout.Stages[0]", reflect.ValueOf(spec.Stages[0]))
	want := &Strategy{
		MaxConcurrency: percent, MaxFailures: five, MinReadySeconds: ptr.To[int32](1), SoakSeconds: 2, ProgressDeadlineSeconds: ptr.To[int32](3),
		OnFailure: FailureRollback, Paused: true,
		Stages: []Stage{{
			Name: "canary", ClusterNames: []string{"eu-1"}, MaxConcurrency: five, SoakSeconds: ptr.To[int32](4), Approval: ApprovalRequired,
			ClusterSelector: &metav1.LabelSelector{
				MatchLabels:      map[string]string{"ring": "canary"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}}},
			},
		}, {Name: "rest", ClusterNames: []string{"us-1"}}},
	}
	if diff := cmp.Diff(want, StrategyOf(spec)); diff != "" {
		t.Errorf("strategy (-want +got):\n%s", diff)
	}
	if StrategyOf(nil) != nil {
		t.Error("without spec.rollout, there is a strategy")
	}
	if diff := cmp.Diff(&Strategy{}, StrategyOf(&propagationv1alpha1.Rollout{})); diff != "" {
		t.Errorf("strategy of an empty rollout (-want +got):\n%s", diff)
	}
}

// TestEmptySelectors: no selector selects nothing, and an empty one everything.
func TestEmptySelectors(t *testing.T) {
	strategy := StrategyOf(&propagationv1alpha1.Rollout{Stages: []propagationv1alpha1.RolloutStage{
		{Name: "named", ClusterNames: []string{"other"}}, {Name: "all", ClusterSelector: &propagationv1alpha1.StageSelector{}},
	}})
	index, err := newStageIndex(strategy.Stages)
	if err != nil {
		t.Fatal(err)
	}
	if got := index.of(&Cluster{Name: "member1"}); got != 1 {
		t.Errorf("member1 belongs to stage %d", got)
	}
}

// TestCommandsOf: commands are what the annotations say, as far as the status can
// remember it.
func TestCommandsOf(t *testing.T) {
	const prefix = propagationv1alpha1.GroupName + "/rollout-"
	got := CommandsOf(map[string]string{
		prefix + "approve": " canary@r2/1\n", prefix + "retry": "r2/2", prefix + "abort": "r2", prefix + "pause": "p" + strings.Repeat("é", 200), prefix + "resume": "yes",
		propagationv1alpha1.RetryAnnotation: "now",
	})
	want := Commands{Approve: "canary@r2/1", Retry: "r2/2", Abort: "r2", Pause: "p" + strings.Repeat("é", 127), Resume: "yes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if got := CommandsOf(nil); got != (Commands{}) {
		t.Errorf("an object without annotations commands %+v", got)
	}
}

// TestRecordedDecision: a decision that is recorded, read and taken again is the same.
func TestRecordedDecision(t *testing.T) {
	in := large(100)
	in.Now, in.Status = epoch.Add(time.Second), StatusOf(sent(t, in.Status.API()))
	first, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Status = StatusOf(sent(t, first.Status.API()))
	second, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Status.API(), second.Status.API()); diff != "" {
		t.Errorf("status (-first +second):\n%s", diff)
	}
	if !slices.Equal(first.Assignments, second.Assignments) {
		t.Error("the second decision assigns something else")
	}
}
