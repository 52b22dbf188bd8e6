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
	"context"
	"errors"
	"io"
	"os"
	"testing"
)

// fleetWithNothing returns the folder of a fleet without processes.
func fleetWithNothing(t *testing.T) (dir string) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	dir = t.TempDir()
	state := &State{Config: Config{Name: "nothing"}, Dir: dir}
	if err := errors.Join(state.save(), writeFile(kubeconfigPath(dir, groupKarmada), []byte("its own"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A fleet goes down when the input of "fleet down --after-stdin" closes, and not
// before.
func TestDownAfterInputCloses(t *testing.T) {
	dir := fleetWithNothing(t)
	reader, writer := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- downAfter(t.Context(), reader, dir, newProgress(os.Stdout).silent()) }()
	if _, err := writer.Write([]byte("still here")); err != nil { // the write returns once downAfter reads, so downAfter is waiting
		t.Fatal(err)
	}
	if _, err := os.Stat(statePath(dir)); err != nil {
		t.Errorf("the fleet went down before the input closed: %v", err)
	}
	if err := errors.Join(writer.Close(), <-result); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the fleet's folder still exists: %v", err)
	}
}

// A fleet that was started again in the meantime is left alone.
func TestDownAfterSparesAnotherFleet(t *testing.T) {
	dir := fleetWithNothing(t)
	reader, writer := io.Pipe()
	result := make(chan error, 1)
	go func() { result <- downAfter(t.Context(), reader, dir, newProgress(os.Stdout).silent()) }()
	if _, err := writer.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	err := writeFile(kubeconfigPath(dir, groupKarmada), []byte("another's"), 0o600)
	if err := errors.Join(err, writer.Close(), <-result); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(statePath(dir)); err != nil {
		t.Errorf("another fleet was taken down: %v", err)
	}
}

// If downAfter is interrupted, it takes nothing down.
func TestDownAfterIsInterrupted(t *testing.T) {
	dir := fleetWithNothing(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reader, _ := io.Pipe()
	if err := downAfter(ctx, reader, dir, newProgress(os.Stdout).silent()); !errors.Is(err, context.Canceled) {
		t.Errorf("downAfter returned %v", err)
	}
	if _, err := os.Stat(statePath(dir)); err != nil {
		t.Errorf("the fleet went down: %v", err)
	}
}
