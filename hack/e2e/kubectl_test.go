//go:build e2e

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

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a user does with kubectl, from the first apply to the last delete.
func TestKubectl(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.noteWork(reference("v1", "ConfigMap", "settings"))
	manifest := `
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata: {name: settings}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, name: settings}
  clusters:
  - name: member1
  - name: member2
`
	ns.kubectl(manifest, "apply", "-f", "-").prints("directpropagation.propagation.karmada-direct.io/settings created")
	ns.kubectl("", "wait", "--for=condition=Ready=False", "dp/settings", "--timeout=60s").prints("directpropagation.propagation.karmada-direct.io/settings condition met")
	ns.kubectl("", "get", "dp").
		has(`NAME +RESOURCE +CLUSTERS +READY +REASON +AGE`).
		has(`settings +settings +0/2 +False +ResourceNotFound +\d+s`)
	missing := fmt.Sprintf("ConfigMap %s/settings does not exist in the Karmada control plane", ns.Name)
	ns.kubectl("", "describe", "dp", "settings").
		has(`Warning +ResourceNotFound +.*karmada-direct +` + regexp.QuoteMeta(missing))

	ns.kubectl("", "create", "configmap", "settings", "--from-literal=says=hello").prints("configmap/settings created")
	ns.kubectl("", "wait", "--for=condition=Ready", "dp/settings", "--timeout=120s").prints("directpropagation.propagation.karmada-direct.io/settings condition met")
	settings := configMap("settings", "hello")
	settings.Namespace = ns.Name
	ns.nowRun(settings, members...)
	ns.kubectl("", "get", "directpropagation", "settings", "--output=wide").
		has(`NAME +RESOURCE +KIND +CLUSTERS +READY +REASON +AGE +MESSAGE`).
		has(`settings +settings +ConfigMap +2/2 +True +Propagated +\S+ +each of 2 clusters has confirmed revision [0-9a-f]{16} and reports it healthy`)
	ns.kubectl("", "get", "karmada-io").has(`directpropagation\S*/settings`)

	ns.kubectl("", "describe", "dp", "settings").has(`Normal +Propagated +.*each of 2 clusters has confirmed`)

	ns.kubectl(manifest, "apply", "-f", "-").prints("directpropagation.propagation.karmada-direct.io/settings unchanged")
	ns.kubectl("", "delete", "dp", "settings").has(`directpropagation.propagation.karmada-direct.io "settings" deleted`)
	ns.comeToLack(settings, members...)
}

// kubectl explain tells of every field what it is for.
func TestKubectlExplains(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	for _, field := range []string{
		"spec", "spec.resource", "spec.resource.apiVersion", "spec.resource.kind", "spec.resource.name", "spec.clusters", "spec.clusters.name",
		"spec.conflictResolution", "spec.preserveResourcesOnDeletion", "spec.suspension", "spec.suspension.dispatching",
		"spec.suspension.dispatchingOnClusters", "spec.suspension.dispatchingOnClusters.clusterNames",
		"status", "status.observedGeneration", "status.conditions", "status.omitted", "status.summary", "status.summary.progress",
		"status.clusters", "status.clusters.name", "status.clusters.applied", "status.clusters.health", "status.clusters.reason",
		"status.clusters.message", "status.clusters.revision", "status.clusters.lastTransitionTime",
	} {
		ns.kubectl("", "explain", "dp."+field).has(`(?s)KIND: +DirectPropagation\n.*DESCRIPTION:\n +\S+ \S+`)
	}
}

// output is what kubectl has printed.
type output struct {
	ns   *Namespace
	what string
	text string
}

// kubectl runs kubectl as a user of the Karmada API server would.
func (ns *Namespace) kubectl(input string, arguments ...string) output {
	ns.t.Helper()
	command := exec.CommandContext(ns.ctx, filepath.Join(ground.Bin, "kubectl"), append([]string{"--kubeconfig", ground.kubeconfig("karmada"), "--namespace", ns.Name}, arguments...)...)
	command.Stdin = strings.NewReader(input)
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	what := "kubectl " + strings.Join(arguments, " ")
	if err := command.Run(); err != nil {
		ns.t.Fatalf("%s: %v\n%s\n%s", what, err, printed.String(), ns.dump())
	}
	return output{ns: ns, what: what, text: printed.String()}
}

// prints checks the whole output.
func (o output) prints(want string) {
	o.ns.t.Helper()
	if got := strings.TrimSpace(o.text); got != want {
		o.ns.t.Errorf("%s printed\n%s\nwant\n%s", o.what, got, want)
	}
}

// has checks that something in the output matches a pattern.
func (o output) has(pattern string) output {
	o.ns.t.Helper()
	if !regexp.MustCompile(pattern).MatchString(o.text) {
		o.ns.t.Errorf("%s printed\n%s\nwithout %s", o.what, o.text, pattern)
	}
	return o
}
