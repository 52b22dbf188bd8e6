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
	"testing"
)

// recorder records the order in which tasks run.
type recorder struct {
	mu    sync.Mutex
	order []string
}

func (r *recorder) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.order = append(r.order, name)
}

func (r *recorder) task(name string, err error, needs ...string) task {
	return task{name: name, needs: needs, run: func(context.Context) error { r.note(name); return err }}
}

func TestRunTasksInOrder(t *testing.T) {
	r := &recorder{}
	err := runTasks(t.Context(), []task{
		r.task("c", nil, "b", "not in the set"),
		r.task("b", nil, "a"),
		r.task("a", nil),
	})
	if err != nil || !slices.Equal(r.order, []string{"a", "b", "c"}) {
		t.Errorf("order %v, error %v", r.order, err)
	}
}

func TestRunTasksStopsAtTheFirstFailure(t *testing.T) {
	r := &recorder{}
	cause := errors.New("cause")
	err := runTasks(t.Context(), []task{
		r.task("a", cause),
		r.task("b", nil, "a"),
		{name: "endless", run: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	})
	if !errors.Is(err, cause) || !slices.Equal(r.order, []string{"a"}) {
		t.Errorf("order %v, error %v", r.order, err)
	}
}

func TestInReverseContinuesAfterFailures(t *testing.T) {
	processes := []*Process{
		{Name: "etcd"},
		{Name: "apiserver", Needs: []string{"etcd"}},
		{Name: "controller", Needs: []string{"apiserver", "some step"}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // an impatient user
	r := &recorder{}
	cause := errors.New("cause")
	err := inReverse(ctx, processes, func(p *Process) error {
		r.note(p.Name)
		if p.Name == "controller" {
			return cause
		}
		return nil
	})
	if !errors.Is(err, cause) || !slices.Equal(r.order, []string{"controller", "apiserver", "etcd"}) {
		t.Errorf("order %v, error %v", r.order, err)
	}
}
