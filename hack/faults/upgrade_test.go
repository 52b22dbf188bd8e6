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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// switches is how often the version changes: up, down, up and down again.
const switches = 4

// edition is a version of the controller with the CRDs and roles that it brings.
type edition struct {
	name    string
	program string
	replica *replica
}

// The previous version of the controller and this one replace each other under
// traffic, as in a rolling update: first the CRDs and the role, then the process. No
// object loses a field, this version does not write what does not change, and everything
// that users want is reached each time.
//
// The previous version is the one before the CRDs last changed. FAULTS_PREVIOUS names
// another commit, or the path of a built controller.
func TestUpgradeAndDowngrade(t *testing.T) {
	ns := newNamespace(t)
	editions := []*edition{previousEdition(t), {name: "this version", program: bed.File("controller-manager")}}
	if program := os.Getenv("FAULTS_CONTROLLER"); program != "" {
		editions[1].program = program
	}
	t.Cleanup(func() { editions[1].installs(t) })
	withoutController(t)
	editions[0].installs(t)
	editions[0].starts(t)
	standing := newStandards(t, ns)
	traffic := newTraffic(t, ns)
	want, began := standing.portraits(), time.Now()
	for i := range switches {
		from, to := editions[i%2], editions[(i+1)%2]
		traffic.switches(from, to)
		if difference := cmp.Diff(want, standing.portraits()); difference != "" {
			t.Errorf("from %s to %s, objects that nobody changed are different (-before +after):\n%s", from.name, to.name, difference)
		}
	}
	if written := standing.writes(began, editions[1]); len(written) > 0 {
		t.Errorf("this version wrote what nobody had changed:\n%s", testbed.Listing(written))
	}
	measured(t, fmt.Sprintf("switches between %s and this version under traffic", editions[0].name),
		fmt.Sprintf("%d, the slowest settled in %v; %d standing objects kept all fields; the previous version wrote to them %d times",
			switches, traffic.slowest.Round(time.Second/10), len(want), len(standing.writes(began, editions[0]))),
		"no write of this version, no lost field, everything is as users want it")
}

// previousEdition builds the previous version from the history of the repository.
func previousEdition(t *testing.T) *edition {
	t.Helper()
	chosen := os.Getenv("FAULTS_PREVIOUS")
	if info, err := os.Stat(chosen); err == nil && !info.IsDir() {
		return &edition{name: filepath.Base(chosen), program: chosen}
	}
	if chosen == "" {
		changed := history(t, "log", "-1", "--format=%H", "--", "apis/crds")
		chosen = changed + "~1"
	}
	commit := history(t, "rev-parse", "--short", "--verify", chosen+"^{commit}")
	folder := t.TempDir()
	archive := filepath.Join(folder, "source.tar")
	history(t, "archive", "--output="+archive, commit)
	if printed, err := exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("unpacking commit %s: %v\n%s", commit, err, printed)
	}
	program := bed.File("controller-manager-previous")
	if err := machine.BuildController(t.Context(), folder, program); err != nil {
		t.Fatalf("commit %s: %v", commit, err)
	}
	return &edition{name: "commit " + commit, program: program}
}

// history runs git in the repository and returns what it prints.
func history(t *testing.T, arguments ...string) string {
	t.Helper()
	printed, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", bed.Root}, arguments...)...).CombinedOutput()
	text := strings.TrimSpace(string(printed))
	if err != nil {
		t.Fatalf("git %s: %v: %s\nThis test needs the history of the repository to build the previous version. "+
			"Run \"git fetch --unshallow\", or set FAULTS_PREVIOUS to a commit or to the path of a built controller.", strings.Join(arguments, " "), err, text)
	}
	return text
}

// installs brings the CRDs and the role of an edition to the control plane.
func (e *edition) installs(t *testing.T) {
	t.Helper()
	for _, command := range []string{"install-crds", "install-rbac"} {
		printed, err := exec.CommandContext(context.Background(), e.program, command, "--kubeconfig", bed.Fleet.Kubeconfig("karmada")).CombinedOutput()
		if err != nil {
			t.Fatalf("%s of %s: %v\n%s", command, e.name, err, printed)
		}
	}
}

// starts starts a process that takes part in the election of a leader.
func (e *edition) starts(t *testing.T) {
	t.Helper()
	if e.replica == nil {
		e.replica = newReplica(t, "edition-"+strings.ReplaceAll(e.name, " ", "-"))
		e.replica.Program = e.program
		t.Cleanup(func() { _ = e.replica.End(syscall.SIGTERM) })
	}
	if err := e.replica.Start("--leader-elect=true"); err != nil {
		t.Fatal(err)
	}
}

// switches replaces one edition with another while users go on, and waits until
// everything is as they want it.
func (f *traffic) switches(from, to *edition) {
	f.t.Helper()
	f.rounds++
	to.installs(f.t)
	f.wantsMore()
	f.check(f.goesOn())
	f.settles(from.name + " has the CRDs of " + to.name)
	to.starts(f.t)
	f.wantsMore()
	going := make(chan error, 1)
	go func() { going <- f.goesOn() }()
	if err := from.replica.End(syscall.SIGTERM); err != nil {
		f.t.Errorf("%s exited with %v", from.name, err)
	}
	ended := time.Now()
	f.check(<-going)
	f.wantsMore()
	f.check(f.goesOn())
	f.settles(to.name + " has replaced " + from.name)
	f.check(to.replica.Fault())
	f.slowest = max(f.slowest, time.Since(ended))
	f.t.Logf("%s has replaced %s: everything is right %v later", to.name, from.name, time.Since(ended).Round(time.Millisecond))
}
