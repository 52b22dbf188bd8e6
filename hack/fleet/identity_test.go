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
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fakeProc returns a /proc in which the given processes run.
func fakeProc(t *testing.T, boot string, stats map[int]string) procfs {
	t.Helper()
	root := t.TempDir()
	write := func(path, content string) {
		if err := writeFile(filepath.Join(root, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/kernel/random/boot_id", boot+"\n")
	for pid, stat := range stats {
		write(fmt.Sprintf("%d/stat", pid), stat)
	}
	return procfs{root: root}
}

// stat returns a line of /proc/<pid>/stat with the fields that matter.
func stat(pid int, name, state string, threads, startTime int) string {
	return fmt.Sprintf("%d (%s) %s %s%d 0 %d 0 0\n", pid, name, state, strings.Repeat("0 ", 16), threads, startTime)
}

func TestRunsComparesMoreThanTheProcessID(t *testing.T) {
	fs := fakeProc(t, "boot-1", map[int]string{
		10: stat(10, "etcd", "S", 9, 5000),
		11: stat(11, "a (strange) name", "R", 1, 6000),
		12: stat(12, "dead", "Z", 1, 7000),
		15: stat(15, "dying", "Z", 3, 8000),
		13: "13 (cut",
	})
	for _, test := range []struct {
		name string
		id   *Identity
		want bool
	}{
		{"the same process", &Identity{PID: 10, StartTime: 5000, BootID: "boot-1"}, true},
		{"a name with spaces and parentheses", &Identity{PID: 11, StartTime: 6000, BootID: "boot-1"}, true},
		{"another process with the same ID", &Identity{PID: 10, StartTime: 4999, BootID: "boot-1"}, false},
		{"the same ticks after another boot", &Identity{PID: 10, StartTime: 5000, BootID: "boot-0"}, false},
		{"a zombie", &Identity{PID: 12, StartTime: 7000, BootID: "boot-1"}, false},
		{"a zombie with threads that have not ended, which still has its ports", &Identity{PID: 15, StartTime: 8000, BootID: "boot-1"}, true},
		{"an unreadable stat", &Identity{PID: 13, StartTime: 1, BootID: "boot-1"}, false},
		{"no such process", &Identity{PID: 14, StartTime: 1, BootID: "boot-1"}, false},
		{"never started", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := fs.runs(test.id); got != test.want {
				t.Errorf("runs = %v, want %v", got, test.want)
			}
		})
	}
}

// sleeper starts a process that sleeps for a long time.
func sleeper(t *testing.T) (id *Identity, ended <-chan error) {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	id, err := proc.identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id, done
}

func TestSignalSparesAProcessWithAnotherStartTime(t *testing.T) {
	id, _ := sleeper(t)
	for name, stranger := range map[string]Identity{
		"other start time": {PID: id.PID, StartTime: id.StartTime - 1, BootID: id.BootID},
		"other boot":       {PID: id.PID, StartTime: id.StartTime, BootID: "another boot"},
	} {
		if err := proc.signal(&stranger, syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: signal returned %v, want %v", name, err, os.ErrProcessDone)
		}
	}
	if !proc.runs(id) {
		t.Error("the process that reuses the ID was killed")
	}
}

func TestStop(t *testing.T) {
	newFleet := func(id *Identity) (*State, *Process) {
		p := &Process{Name: "sleeper", Identity: id}
		return &State{Dir: t.TempDir(), Processes: []*Process{p}}, p
	}
	t.Run("stops its own process", func(t *testing.T) {
		id, ended := sleeper(t)
		state, p := newFleet(id)
		if err := state.stop(p, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil || err.Error() != "signal: terminated" {
			t.Errorf("process ended with %v, want a termination", err)
		}
		saved, err := loadState(state.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if p.Identity != nil || saved.Processes[0].Identity != nil {
			t.Error("the identity of the stopped process is still recorded")
		}
	})
	t.Run("spares a stranger with the same ID", func(t *testing.T) {
		id, _ := sleeper(t)
		state, p := newFleet(&Identity{PID: id.PID, StartTime: id.StartTime - 1, BootID: id.BootID})
		if err := state.stop(p, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if !proc.runs(id) {
			t.Error("the stranger was stopped")
		}
	})
	t.Run("does nothing for a stopped process", func(t *testing.T) {
		state, p := newFleet(nil)
		if err := state.stop(p, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	})
}
