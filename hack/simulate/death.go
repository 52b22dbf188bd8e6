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

package simulate

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

// death is the end of a process of the controller in the middle of a write.
type death struct {
	// at is the number of the write, counted from 1.
	at int
	// effective: the write takes effect, and only its answer is lost.
	effective bool

	seen   int
	victim *replica
	buried bool
}

// String tells where a process dies.
func (d *death) String() string {
	if d.effective {
		return fmt.Sprintf("after write %d", d.at)
	}
	return fmt.Sprintf("before write %d", d.at)
}

// strikes counts a request, and reports whether its sender dies now.
func (d *death) strikes(call *apiserver.Call) bool {
	if d == nil || !writes(call) || slices.Contains([]string{"leases", "events", "subjectaccessreviews"}, call.Resource) {
		return false
	}
	d.seen++
	return d.seen == d.at
}

// isNow reports, once, whether a process has just died.
func (d *death) isNow() bool {
	if d == nil || d.victim == nil || d.buried {
		return false
	}
	d.buried = true
	return true
}

// during has users do things at once when all is quiet, and a process of the controller
// die in the middle of what it then has to do.
func (d *death) during(does []operation) func(*World, context.Context) error {
	return func(w *World, ctx context.Context) error {
		if err := w.settle(ctx); err != nil { // all clusters join
			return err
		}
		if err := w.users.begin(ctx); err != nil {
			return err
		}
		if err := w.settle(ctx); err != nil {
			return err
		}
		for _, do := range does {
			if err := w.users.perform(ctx, do); err != nil {
				return err
			}
		}
		w.death = d
		return w.settle(ctx)
	}
}

// die has the sender of a request die. The request takes effect before that, or never.
func (w *World) die(call *apiserver.Call) {
	at := slices.IndexFunc(w.replicas, func(r *replica) bool { return r.name == call.Client })
	w.death.victim = w.replicas[at]
	w.death.victim.frozen = true // nobody answers it anymore
	if w.death.effective {
		w.tell("%s: done, and %s dies before the answer", call, call.Client)
		call.ServeAndDrop()
		return
	}
	w.tell("%s: lost, and %s dies", call, call.Client)
	call.Drop()
}

// everyOperation lists each operation of users once.
func everyOperation() []operation {
	every, seen := []operation{}, map[string]bool{}
	for _, do := range slices.Concat(basics, slices.Concat(others...)) {
		if name := operationName(do); !seen[name] {
			every, seen[name] = append(every, do), true
		}
	}
	return every
}

// operationName is what an operation is called in the code.
func operationName(do operation) string {
	name := runtime.FuncForPC(reflect.ValueOf(do).Pointer()).Name()
	return strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")
}
