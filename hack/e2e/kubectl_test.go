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
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/karmada-direct/karmada-direct/apis"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// What a user does with kubectl, from the first apply to the last delete.
func TestKubectl(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	ns.NoteWork(testbed.Reference("v1", "ConfigMap", "settings"))
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
		has(`NAME +RESOURCE +CLUSTERS +ROLLOUT +READY +REASON +AGE`).
		has(`settings +settings +0/2 +False +ResourceNotFound +\d+s`)
	missing := fmt.Sprintf("ConfigMap %s/settings does not exist in the Karmada control plane", ns.Name)
	ns.kubectl("", "describe", "dp", "settings").
		has(`Warning +ResourceNotFound +.*karmada-direct +` + regexp.QuoteMeta(missing))

	ns.kubectl("", "create", "configmap", "settings", "--from-literal=says=hello").prints("configmap/settings created")
	ns.kubectl("", "wait", "--for=condition=Ready", "dp/settings", "--timeout=120s").prints("directpropagation.propagation.karmada-direct.io/settings condition met")
	settings := testbed.ConfigMap("settings", "hello")
	settings.Namespace = ns.Name
	ns.NowRun(settings, members...)
	ns.kubectl("", "get", "directpropagation", "settings", "--output=wide").
		has(`NAME +RESOURCE +KIND +CLUSTERS +ROLLOUT +READY +REASON +AGE +MESSAGE`).
		has(`settings +settings +ConfigMap +2/2 +True +Propagated +\S+ +each of 2 clusters has confirmed revision [0-9a-f]{16} and reports it healthy`)
	ns.kubectl("", "get", "karmada-io").has(`directpropagation\S*/settings`)

	ns.kubectl("", "describe", "dp", "settings").has(`Normal +Propagated +.*each of 2 clusters has confirmed`)

	ns.kubectl(manifest, "apply", "-f", "-").prints("directpropagation.propagation.karmada-direct.io/settings unchanged")
	ns.kubectl("", "delete", "dp", "settings").has(`directpropagation.propagation.karmada-direct.io "settings" deleted`)
	ns.ComeToLack(settings, members...)
}

// kubectl explain describes every field of every kind.
func TestKubectlExplains(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	crds, err := apis.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			kind := strings.ToLower(crd.Spec.Names.Kind)
			for _, field := range fieldsOf("", version.Schema.OpenAPIV3Schema) {
				count++
				ns.kubectl("", "explain", kind+field).
					has(`(?s)KIND: +` + crd.Spec.Names.Kind + `\n.*DESCRIPTION:\n +\S+ \S+`).
					lacks(`<no description|<empty>`)
			}
		}
	}
	if count < 25 {
		t.Errorf("found only %d fields; is the search still correct?", count)
	}
}

// fieldsOf lists the paths of all fields of a schema in the form that kubectl
// explain accepts. Metadata is left out because Kubernetes defines it.
func fieldsOf(path string, schema *apiextensionsv1.JSONSchemaProps) []string {
	for schema.Items != nil {
		schema = schema.Items.Schema
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if path == "" && (name == "metadata" || name == "apiVersion" || name == "kind") {
			continue
		}
		property := schema.Properties[name]
		fields = append(fields, path+"."+name)
		fields = append(fields, fieldsOf(path+"."+name, &property)...)
	}
	return fields
}

// What users ask the API server before they change anything: what would differ, and
// whether it would accept a change.
func TestKubectlDryRun(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	manifest := func(clusters string) string {
		return fmt.Sprintf(`
apiVersion: propagation.karmada-direct.io/v1alpha1
kind: DirectPropagation
metadata: {name: settings}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, name: settings}
  clusters: %s
`, clusters)
	}
	ns.NoteWork(testbed.Reference("v1", "ConfigMap", "settings"))
	const name = "directpropagation.propagation.karmada-direct.io/settings"
	ns.kubectl(manifest("[{name: member1}]"), "apply", "--dry-run=server", "-f", "-").prints(name + " created (server dry run)")
	ns.kubectl("", "get", "dp").has("No resources found")
	ns.kubectl(manifest("[{name: member1}]"), "apply", "--server-side", "-f", "-").prints(name + " serverside-applied")
	// A status that is written while kubectl compares would also be a difference.
	ns.kubectl("", "wait", "--for=condition=Ready=False", "dp/settings", "--timeout=60s")

	ns.kubectl(manifest("[{name: member1}]"), "diff", "--server-side", "-f", "-").prints("")
	ns.kubectlFails(manifest("[{name: member1}, {name: member2}]"), "diff", "--server-side", "-f", "-").
		has(`(?m)^\+  - name: member2$`).lacks(`(?m)^[-+] *(status|conditions)`)
	ns.kubectlFails(manifest("[{name: member1}, {name: member1}]"), "apply", "--server-side", "--dry-run=server", "-f", "-").has(`(?i)duplicate`)
	ns.kubectlFails(manifest("[]"), "apply", "--server-side", "--dry-run=server", "-f", "-").has(`spec.clusters`)
	ns.kubectlFails(manifest("[{name: member1, weight: 2}]"), "apply", "--server-side", "--dry-run=server", "-f", "-").has(`weight`)
	ns.kubectl("", "get", "dp", "settings", "--output=jsonpath={.spec.clusters[*].name}").prints("member1")
}

// kubectl installs the same from the single file as with kustomize.
func TestKubectlInstalls(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	base := filepath.Join(bed.Root, "cmd", "controller-manager", "install")
	whole := ns.kubectlWithout("", "apply", "--server-side", "--dry-run=server", "-f", filepath.Join(base, "install.yaml")).
		has(`customresourcedefinition\S+/directpropagations.propagation.karmada-direct.io serverside-applied \(server dry run\)`).
		has(`clusterrole\S+/karmada-direct serverside-applied`).
		has(`serviceaccount/karmada-direct serverside-applied`)
	parts := ns.kubectlWithout("", "apply", "--server-side", "--dry-run=server", "-k", base)
	if lines(whole.text) != lines(parts.text) {
		t.Errorf("install.yaml installs\n%sand the kustomization\n%s", whole.text, parts.text)
	}
}

// lines sorts the lines of a text.
func lines(text string) string {
	list := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// output is the output of a kubectl command.
type output struct {
	ns   *Namespace
	what string
	text string
}

// kubectl runs kubectl as a user of the Karmada API server would, in the namespace
// of the test.
func (ns *Namespace) kubectl(input string, arguments ...string) output {
	ns.T.Helper()
	return ns.kubectlWithout(input, append([]string{"--namespace", ns.Name}, arguments...)...)
}

// kubectlWithout is kubectl without a namespace.
func (ns *Namespace) kubectlWithout(input string, arguments ...string) output {
	ns.T.Helper()
	printed, err := ns.runKubectl(input, arguments...)
	if err != nil {
		ns.T.Fatalf("%s: %v\n%s\n%s", printed.what, err, printed.text, ns.Dump())
	}
	return printed
}

// kubectlFails runs a command that must fail or find a difference.
func (ns *Namespace) kubectlFails(input string, arguments ...string) output {
	ns.T.Helper()
	printed, err := ns.runKubectl(input, append([]string{"--namespace", ns.Name}, arguments...)...)
	if err == nil {
		ns.T.Errorf("%s did not fail, but printed\n%s", printed.what, printed.text)
	}
	return printed
}

func (ns *Namespace) runKubectl(input string, arguments ...string) (output, error) {
	command := exec.CommandContext(ns.Ctx, bed.Fleet.Tool("kubectl"), append([]string{"--kubeconfig", bed.Fleet.Kubeconfig("karmada")}, arguments...)...)
	command.Stdin = strings.NewReader(input)
	var printed bytes.Buffer
	command.Stdout, command.Stderr = &printed, &printed
	err := command.Run()
	return output{ns: ns, what: "kubectl " + strings.Join(arguments, " "), text: printed.String()}, err
}

// prints checks the complete output.
func (o output) prints(want string) {
	o.ns.T.Helper()
	if got := strings.TrimSpace(o.text); got != want {
		o.ns.T.Errorf("%s printed\n%s\nwant\n%s", o.what, got, want)
	}
}

// has checks that some part of the output matches a pattern.
func (o output) has(pattern string) output {
	o.ns.T.Helper()
	if !regexp.MustCompile(pattern).MatchString(o.text) {
		o.ns.T.Errorf("%s printed\n%s\nwithout %s", o.what, o.text, pattern)
	}
	return o
}

// lacks checks that no part of the output matches a pattern.
func (o output) lacks(pattern string) output {
	o.ns.T.Helper()
	if found := regexp.MustCompile(pattern).FindString(o.text); found != "" {
		o.ns.T.Errorf("%s printed\n%s\nwith %s", o.what, o.text, found)
	}
	return o
}
