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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Extra arguments follow those of every start, so they win. They are not stored, so the
// next start is without them.
func TestExtraArgs(t *testing.T) {
	dir := t.TempDir()
	echo, err := exec.LookPath("echo")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(echo, filepath.Join(dir, programEtcd)); err != nil {
		t.Fatal(err)
	}
	p := &Process{Name: programEtcd, Program: programEtcd, Args: []string{"--size=1"}, Log: filepath.Join(dir, "etcd.log"), extraArgs: []string{"--size=2"}}
	state := &State{Dir: dir, Bin: dir, Processes: []*Process{p}}
	for _, want := range []string{"--size=1 --size=2", "--size=1"} {
		exited, err := state.launch(t.Context(), state.process(programEtcd))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-exited; err != nil {
			t.Fatal(err)
		}
		log, err := os.ReadFile(p.Log)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(strings.TrimSpace(string(log)), "\n"); lines[len(lines)-1] != want {
			t.Errorf("it was started with %q, want %q", lines[len(lines)-1], want)
		}
		if state, err = loadState(dir); err != nil {
			t.Fatal(err)
		}
	}
}
