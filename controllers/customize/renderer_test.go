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

package customize

import (
	"context"
	"strings"
	"testing"

	"github.com/karmada-io/karmada/pkg/resourceinterpreter/default/native"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// builtIn is the part of Karmada's interpreter that needs no server.
type builtIn struct{ *native.DefaultInterpreter }

func (builtIn) Start(context.Context) error { return nil }

// A kind without replicas cannot get any: the row of the cluster says what to do.
func TestReplicasNeedAKindThatHasSome(t *testing.T) {
	customizer := New(nil, &Interpreter{ResourceInterpreter: builtIn{native.NewDefaultInterpreter()}}, nil)
	resource := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	_, failure := (&Renderer{customizer: customizer}).reviseReplicas(resource, 3)
	if failure == nil || !strings.Contains(failure.Message, "cannot revise the replicas of v1 ConfigMap") || !failure.Retry.IsZero() {
		t.Errorf("failure: %+v", failure)
	}
}
