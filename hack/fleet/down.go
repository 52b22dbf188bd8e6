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
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// down stops all processes of a fleet and deletes its folder.
func down(ctx context.Context, dir string, out *progress) error {
	state, lock, err := lockState(ctx, dir)
	if errors.Is(err, errNoFleet) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.release()
	if err := state.stopAll(ctx, state.Processes, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping fleet %s: %w", state.Name, err)
	}
	fleets, err := openRegistry()
	if err != nil {
		return err
	}
	if err := fleets.remove(ctx, dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("deleting the fleet's folder: %w", err)
	}
	// The folder of all fleets is removed with the last one. While it still contains
	// others, Remove fails, as intended.
	if parent := filepath.Dir(dir); filepath.Base(parent) == fleetsFolder {
		_ = os.Remove(parent)
	}
	out.println("Fleet %s is down, and %s is deleted.", state.Name, dir)
	return nil
}

// downAfter takes a fleet down when its input closes. If the fleet was taken down
// and started again in the meantime, it is a different fleet and is left alone.
func downAfter(ctx context.Context, input io.Reader, dir string, out *progress) error {
	before, err := os.ReadFile(kubeconfigPath(dir, groupKarmada)) // every fleet has its own certificates
	if err != nil {
		return fmt.Errorf("reading the identity of the fleet: %w", err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, input) // a read error is also an end
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := os.ReadFile(kubeconfigPath(dir, groupKarmada))
	if err != nil || !bytes.Equal(before, after) {
		out.println("The fleet in %s is already gone.", dir)
		return nil //nolint:nilerr // there is nothing to take down
	}
	return down(ctx, dir, out)
}

// stopAll stops each process after those that need it, so that none logs errors
// about a missing dependency.
func (s *State) stopAll(ctx context.Context, processes []*Process, signal syscall.Signal) error {
	return inReverse(ctx, processes, func(p *Process) error { return s.stop(p, signal) })
}
