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

package testbed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	"github.com/karmada-io/karmada/pkg/util/names"
)

// Dump describes a namespace: its objects with their status, their Works, and what
// the controller wrote and logged.
func (ns *Namespace) Dump() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out := &strings.Builder{}
	for _, object := range ns.Bed.Propagations.All() {
		if object.GetNamespace() == ns.Name {
			fmt.Fprintf(out, "---- DirectPropagation %s\n%s", object.GetName(), YAML(object))
		}
	}
	ns.dumpWorks(ctx, out)
	if ns.Bed.Audit != nil {
		written := ns.Bed.Audit.Since(time.Time{}, ns.IsOurs)
		fmt.Fprintf(out, "---- the last of the controller's writes for namespace %s, %d in total\n%s\n", ns.Name, len(written), Listing(written[max(0, len(written)-30):]))
	}
	fmt.Fprintf(out, "---- the last lines of the controller's log about namespace %s\n%s\n", ns.Name, ns.Bed.Controller.tail(ns.Name, 30))
	return out.String()
}

func (ns *Namespace) dumpWorks(ctx context.Context, out *strings.Builder) {
	for _, member := range ns.Bed.Options.Members {
		for _, name := range ns.workNames() {
			work := &workv1alpha1.Work{}
			key := client.ObjectKey{Namespace: names.GenerateExecutionSpaceName(member.Name), Name: name}
			if err := ns.Bed.Karmada.Get(ctx, key, work); err != nil {
				fmt.Fprintf(out, "---- Work %s: %v\n", key, err)
				continue
			}
			work.ManagedFields = nil
			fmt.Fprintf(out, "---- Work %s\n%s", key, YAML(work))
		}
	}
}

// YAML formats an object for a message.
func YAML(object any) string {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(text)
}
