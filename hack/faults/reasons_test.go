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
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// telling is how a reason was caused and what was observed.
type telling struct {
	by, where, message string
}

// reasons causes every reason.
type reasons struct {
	*Namespace
	told map[string]telling
}

// Every reason of the API is caused on the fleet, in a row, in Ready or in an Event.
// The test writes what it observes to the page of reasons.
func TestEveryReason(t *testing.T) {
	r := &reasons{Namespace: newNamespace(t), told: map[string]telling{}}
	for _, scene := range []struct {
		name string
		play func(*reasons)
	}{
		{"in order", (*reasons).inOrder},
		{"mistakes", (*reasons).mistakes},
		{"reads that fail", (*reasons).readsThatFail},
		{"reviews that fail", (*reasons).reviewsThatFail},
		{"malformed resources", (*reasons).shapeless},
		{"clusters that refuse", (*reasons).refusing},
		{"kinds", (*reasons).kinds},
		{"health", (*reasons).health},
		{"differences", (*reasons).differences},
		{"others", (*reasons).others},
		{"writes that fail", (*reasons).writesThatFail},
		{"a rollout", (*reasons).rollingOut},
		{"a rollout that fails", (*reasons).rollingBack},
		{"a rollout that loses its state", (*reasons).losing},
		{"no controller applies", (*reasons).nobodyApplies},
		{"clusters that leave", (*reasons).leaving},
		{"unreachable clusters", (*reasons).gone},
	} {
		t.Run(scene.name, func(t *testing.T) {
			scene.play(&reasons{Namespace: &Namespace{r.In(t)}, told: r.told})
		})
	}
	constants := reasonConstants(t)
	for _, reason := range constants {
		if r.told[reason].message == "" && r.told[reason].by == "" {
			t.Errorf("reason %s was not caused", reason)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(r.told)) {
		if !slices.Contains(constants, reason) {
			t.Errorf("reason %s is not a constant of the API", reason)
		}
	}
	if t.Failed() || !writesDocs {
		return
	}
	if err := os.WriteFile(filepath.Join(bed.Root, "docs", "reasons.md"), []byte(r.page(constants)), 0o644); err != nil {
		t.Error(err)
	}
}

// tells waits until an object has a reason, in a row or in Ready, and records the
// message.
func (r *reasons) tells(name, reason, by string) {
	r.T.Helper()
	r.tellsSince(time.Time{}, name, reason, by)
}

func (r *reasons) tellsSince(since time.Time, name, reason, by string) {
	r.T.Helper()
	_, object := r.Propagation(name).First(since, testbed.Patience, func(object *DirectPropagation) error {
		if where, _ := sayingOf(object, reason); where == "" {
			return fmt.Errorf("nothing says %s: Ready is %+v, rows are %+v", reason, testbed.ConditionOf(object, propagationv1alpha1.ConditionReady), object.Status.Clusters)
		}
		return nil
	})
	where, message := sayingOf(object, reason)
	r.told[reason] = telling{by: by, where: where, message: r.neutral(message)}
}

// sayingOf finds a reason in an object. It prefers a row to Ready, which repeats the
// worst row, and Ready to the rollout.
func sayingOf(object *DirectPropagation, reason string) (where, message string) {
	for _, row := range object.Status.Clusters {
		if row.Reason == reason {
			return fmt.Sprintf("row, applied %s", row.Applied), row.Message
		}
	}
	if ready := testbed.ConditionOf(object, propagationv1alpha1.ConditionReady); ready.Reason == reason {
		return fmt.Sprintf("Ready %s", ready.Status), ready.Message
	}
	if rollout := object.Status.Rollout; rollout != nil && rollout.Reason == reason {
		return "status.rollout", rollout.Progress
	}
	return "", ""
}

var (
	hexRevision     = regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	loopbackAddress = regexp.MustCompile(`(127\.0\.0\.1|localhost):[0-9]+`)
	randomGroup     = regexp.MustCompile(`faults-[a-z0-9]{5}\.example\.org`)
	randomUID       = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	anyTime         = regexp.MustCompile(`\b[0-9-]{10}T[0-9:]{8}Z`)
)

// neutral replaces what differs between runs.
func (ns *Namespace) neutral(message string) string {
	message = strings.ReplaceAll(message, ns.Name, "shop")
	message = hexRevision.ReplaceAllString(message, "‹revision›")
	message = randomGroup.ReplaceAllString(message, "example.org")
	message = randomUID.ReplaceAllString(message, "‹UID›")
	message = anyTime.ReplaceAllString(message, "‹time›")
	return loopbackAddress.ReplaceAllString(message, "‹address›")
}

// reasonConstants extracts all reasons from the source code of the API.
func reasonConstants(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(bed.Root, "apis", "propagation", "v1alpha1", "reasons.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") && !strings.HasPrefix(spec.Names[0].Name, "Event") {
			return true
		}
		literal, _ := spec.Values[0].(*ast.BasicLit)
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(errors.Join(fmt.Errorf("reading %s", spec.Names[0].Name), err))
		}
		found = append(found, value)
		return true
	})
	if len(found) < 20 {
		t.Fatalf("only %d reasons found in %s", len(found), path)
	}
	return found
}

const reasonsPreface = `# Reasons, as seen

Generated by %[1]sFAULTS_WRITE_DOCS=1 go test -tags faults -run EveryReason ./hack/faults%[1]s,
which causes every reason on a real fleet. Do not edit.
[troubleshooting.md](troubleshooting.md) explains the reasons and what to do.

Messages of rows are cut at 256 bytes. The namespace is always shop.

| reason | caused by | reported in | message |
|---|---|---|---|
`

func (r *reasons) page(constants []string) string {
	out := &strings.Builder{}
	fmt.Fprintf(out, reasonsPreface, "`")
	for _, reason := range constants {
		told := r.told[reason]
		message := cell(told.message)
		if message == "" {
			message = "none"
		}
		fmt.Fprintf(out, "| [%s](troubleshooting.md#%s) | %s | %s | %s |\n", reason, strings.ToLower(reason), cell(told.by), told.where, message)
	}
	return out.String()
}
