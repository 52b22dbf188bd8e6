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
	"slices"
	"sync"
)

// task is a piece of work that may depend on others.
type task struct {
	name  string
	needs []string
	run   func(context.Context) error
}

// runTasks runs tasks in parallel, each after the tasks that it needs. A need that
// is not in the list counts as met. The first failure cancels the rest and is
// returned.
func runTasks(ctx context.Context, tasks []task) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := map[string]chan struct{}{}
	for _, t := range tasks {
		done[t.name] = make(chan struct{})
	}
	var group sync.WaitGroup
	for _, t := range tasks {
		group.Go(func() {
			for _, need := range t.needs {
				if done[need] == nil {
					continue
				}
				select {
				case <-done[need]:
				case <-ctx.Done():
					return
				}
			}
			if err := t.run(ctx); err != nil {
				cancel(err) // only the first cause is kept
				return
			}
			close(done[t.name])
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// inReverse calls run for each process after the processes that need it. A failure
// does not stop the others, so that one stuck process does not keep them running.
func inReverse(ctx context.Context, processes []*Process, run func(*Process) error) error {
	var mu sync.Mutex
	var errs []error
	tasks := make([]task, len(processes))
	for i, p := range processes {
		tasks[i] = task{name: p.Name, run: func(context.Context) error {
			if err := run(p); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		}}
		for _, other := range processes {
			if slices.Contains(other.Needs, p.Name) {
				tasks[i].needs = append(tasks[i].needs, other.Name)
			}
		}
	}
	// Finish the cleanup even if the user presses Ctrl-C.
	err := runTasks(context.WithoutCancel(ctx), tasks)
	return errors.Join(append(errs, err)...)
}
