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

package machine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// standIn is a fleet program that records the commands it receives. Like the real
// program, "down --after-stdin" waits for the end of its input.
const standIn = `#!/bin/sh
case "$*" in
down\ --after-stdin*) echo "guards" >> "$0.told"; cat > /dev/null; echo "down" >> "$0.told" ;;
up*) mkdir -p "$3" && echo '{"bin":"bin"}' > "$3/fleet.json" ;;
esac
`

// dying is the environment variable that makes this test binary start a fleet, and
// then end as the variable says, instead of running tests.
const dying = "TESTBED_DYING"

func TestMain(m *testing.M) {
	if how := os.Getenv(dying); how != "" {
		die(how)
	}
	os.Exit(m.Run())
}

func die(how string) {
	f := &Fleet{Name: "dying", Dir: os.Getenv(dying + "_DIR"), Program: os.Getenv(dying + "_PROGRAM")}
	if err := f.Up(context.Background(), os.Stdout, how == "kept"); err != nil {
		panic(err)
	}
	switch how {
	case "panic":
		go func() { panic("a test panics") }()
		select {}
	case "killed":
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {}
	}
	os.Exit(0)
}

// However the tests end, the fleet is stopped unless it is to be kept.
func TestFleetGoesDownWithItsParent(t *testing.T) {
	for how, goesDown := range map[string]bool{"panic": true, "killed": true, "exit": true, "kept": false} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			program := filepath.Join(folder, "fleet")
			if err := os.WriteFile(program, []byte(standIn), 0o755); err != nil {
				t.Fatal(err)
			}
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = append(os.Environ(), dying+"="+how, dying+"_DIR="+filepath.Join(folder, "state"), dying+"_PROGRAM="+program)
			printed := &bytes.Buffer{}
			child.Stdout, child.Stderr = printed, printed
			err := child.Run()
			if fails := how == "panic" || how == "killed"; (err != nil) != fails {
				t.Fatalf("the parent ended with %v:\n%s", err, printed)
			}
			told := func() string {
				content, _ := os.ReadFile(program + ".told")
				return strings.ReplaceAll(string(content), "\n", " ")
			}
			if !goesDown {
				if said := told(); said != "" {
					t.Errorf("the fleet received %q", said)
				}
				return
			}
			err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
				return told() == "guards down ", nil
			})
			if err != nil {
				t.Errorf("%v: the fleet received %q", err, told())
			}
		})
	}
}

// A process that exits unexpectedly is reported as a fault; one that is stopped on
// purpose is not.
func TestProcessThatEndsByItself(t *testing.T) {
	p := &Process{Name: "sleeper", Program: "/bin/sleep", Log: filepath.Join(t.TempDir(), "log")}
	if err := errors.Join(p.Start("60"), p.Fault()); err != nil {
		t.Fatal(err)
	}
	if p.PID() == 0 {
		t.Error("it has no process ID")
	}
	p.Kill()
	if err := errors.Join(p.Fault(), p.Terminate()); err != nil {
		t.Errorf("after its end: %v", err)
	}
	if err := p.Start("0"); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return p.Fault() != nil, nil })
	if err != nil {
		t.Errorf("%v: its exit is not reported", err)
	}
	if p.Terminate() == nil {
		t.Error("Terminate does not report that the process had already exited")
	}
	if text, err := p.LogSinceStart(); err != nil || !strings.HasPrefix(text, startMark+" 0") {
		t.Errorf("the log since the last start is %q, error %v", text, err)
	}
}
