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

package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
	"sigs.k8s.io/yaml"
)

const folder = "../../../docs/operations"

// The script runs this program in place of kubectl, and in place of jq, neither of
// which need be installed.
func TestMain(m *testing.M) {
	plays := map[string]func([]string) error{"kubectl": get, "jq": filter}[filepath.Base(os.Args[0])]
	if plays == nil {
		os.Exit(m.Run())
	}
	if err := plays(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// get prints the policies and bindings of the test as kubectl get would.
func get(arguments []string) error {
	want := []string{"get", "propagationpolicies.policy.karmada.io,resourcebindings.work.karmada.io", "-A", "--output", "json"}
	if !slices.Equal(arguments, want) {
		return fmt.Errorf("kubectl is run with %q, want %q", arguments, want)
	}
	content, err := os.ReadFile(filepath.Join(folder, "testdata", "policies.yaml"))
	if err != nil {
		return err
	}
	content, err = yaml.YAMLToJSON(content)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(content)
	return err
}

// filter does what jq does with the arguments that the script gives it.
func filter(arguments []string) error {
	names, values := []string{}, []any{}
	arguments = arguments[1:] // --raw-output
	for ; arguments[0] == "--arg"; arguments = arguments[3:] {
		names, values = append(names, "$"+arguments[1]), append(values, arguments[2])
	}
	program, err := os.ReadFile(arguments[1]) // --from-file
	if err != nil {
		return err
	}
	query, err := gojq.Parse(string(program))
	if err != nil {
		return err
	}
	code, err := gojq.Compile(query, gojq.WithVariables(names))
	if err != nil {
		return err
	}
	var input any
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		return err
	}
	return write(code.Run(input, values...))
}

// write prints strings as they are, and everything else as JSON.
func write(results gojq.Iter) error {
	for result, found := results.Next(); found; result, found = results.Next() {
		switch result := result.(type) {
		case error:
			return result
		case string:
			fmt.Println(result)
		default:
			if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
				return err
			}
		}
	}
	return nil
}

// path is a PATH with the programs that this one plays, before all others.
func path(t *testing.T, programs ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programsFolder := t.TempDir()
	for _, program := range programs {
		if err := os.Symlink(self, filepath.Join(programsFolder, program)); err != nil {
			t.Fatal(err)
		}
	}
	return programsFolder + ":" + os.Getenv("PATH")
}

// paths has a PATH with a jq written in Go, and one with that of the machine, if there
// is one: older ones have bugs of their own.
func paths(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{"gojq": path(t, "kubectl", "jq")}
	if _, err := exec.LookPath("jq"); err == nil {
		found["jq"] = path(t, "kubectl")
	}
	return found
}

func run(t *testing.T, programs string, arguments ...string) (string, error) {
	t.Helper()
	script := exec.CommandContext(t.Context(), filepath.Join(folder, "policies.sh"), arguments...) //nolint:gosec // our own script
	script.Env = append(os.Environ(), "PATH="+programs)
	printed, err := script.Output()
	failure := &exec.ExitError{}
	if errors.As(err, &failure) {
		return string(failure.Stderr), err
	}
	return string(printed), err
}

const report = `no	lab/batch	divides replicas: --divided fixes the number that each cluster has now
no	lab/everything	has activationPreference: Lazy
no	lab/everything	has several groups of clusters (clusterAffinities)
no	lab/everything	has the scheduler other
no	lab/everything	is suspended: resume it first
no	lab/everything	moves workloads to other clusters (failover)
no	lab/everything	places workloads by other workloads (workloadAffinity)
no	lab/everything	selects ConfigMaps by label or kind, also those that are created later
no	lab/everything	selects Secrets by label or kind, also those that are created later
no	lab/everything	spreads over clusters (spreadConstraints)
no	lab/moving	moving-service is being evicted from a cluster
no	lab/pending	pending-service is being deleted
no	lab/pending	pending-service is not scheduled
no	lab/sums	divides the completions of Job sums
no	lab/sums	has not claimed ConfigMap sums: it does not exist, or another policy has it
yes	shop/kept	Service kept on 1 clusters
yes	shop/web	Deployment web on 2 clusters, Service web on 2 clusters
`

// The script says of each policy whether it can be moved, and prints commands for those
// that can.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for name, programs := range paths(t) {
		for arguments, want := range map[string]string{
			"report -A":   report,
			"preserve -A": `kubectl -n shop patch propagationpolicy web --type merge -p '{"spec":{"preserveResourcesOnDeletion":true}}'` + "\n",
			"release -A": "kubectl -n shop delete propagationpolicy kept\nkubectl -n shop delete resourcebinding kept-service\n" +
				"kubectl -n shop delete propagationpolicy web\n" +
				"kubectl -n shop delete resourcebinding web-deployment\nkubectl -n shop delete resourcebinding web-service\n",
			"report --divided -A": strings.Replace(report, "no\tlab/batch\tdivides replicas: --divided fixes the number that each cluster has now",
				"yes\tlab/batch\tDeployment batch on 2 clusters, Service batch on 2 clusters; names replace what chooses the clusters", 1),
		} {
			t.Run(name+" "+arguments, func(t *testing.T) {
				t.Parallel()
				if got, err := run(t, programs, strings.Fields(arguments)...); err != nil || got != want {
					t.Errorf("error %v, got\n%s\nwant\n%s", err, got, want)
				}
			})
		}
	}
}

// compact prints each item of a printed list on a line.
func compact(t *testing.T, list string) string {
	t.Helper()
	parsed := struct {
		Kind  string
		Items []map[string]any
	}{}
	if err := json.Unmarshal([]byte(list), &parsed); err != nil || parsed.Kind != "List" {
		t.Fatalf("this is no list, %v:\n%s", err, list)
	}
	lines := &strings.Builder{}
	for _, item := range parsed.Items {
		line, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(lines, string(line))
	}
	return lines.String()
}

const objects = `{"apiVersion":"propagation.karmada-direct.io/v1alpha1","kind":"DirectPropagation","metadata":{"name":"kept-service","namespace":"shop"},"spec":{"clusters":[{"name":"member1"}],"conflictResolution":"Overwrite","preserveResourcesOnDeletion":true,"resource":{"apiVersion":"v1","kind":"Service","name":"kept"}}}
{"apiVersion":"propagation.karmada-direct.io/v1alpha1","kind":"DirectPropagation","metadata":{"name":"web-deployment","namespace":"shop"},"spec":{"clusters":[{"name":"member1"},{"name":"member2"}],"conflictResolution":"Overwrite","propagateDeps":true,"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}
{"apiVersion":"propagation.karmada-direct.io/v1alpha1","kind":"DirectPropagation","metadata":{"name":"web-service","namespace":"shop"},"spec":{"clusters":[{"name":"member1"},{"name":"member2"}],"conflictResolution":"Overwrite","propagateDeps":true,"resource":{"apiVersion":"v1","kind":"Service","name":"web"}}}
`

const divided = `{"apiVersion":"propagation.karmada-direct.io/v1alpha1","kind":"DirectPropagation","metadata":{"name":"batch-deployment","namespace":"lab"},"spec":{"clusters":[{"name":"member1","replicas":3},{"name":"member3","replicas":1}],"conflictResolution":"Overwrite","resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"batch"}}}
{"apiVersion":"propagation.karmada-direct.io/v1alpha1","kind":"DirectPropagation","metadata":{"name":"batch-service","namespace":"lab"},"spec":{"clusters":[{"name":"member1"},{"name":"member3"}],"conflictResolution":"Overwrite","resource":{"apiVersion":"v1","kind":"Service","name":"batch"}}}
`

// The copy of a policy has nothing that only the API server and Karmada set.
const copies = `{"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy","metadata":{"annotations":{},"labels":{},"name":"kept","namespace":"shop"},"spec":{"placement":{"clusterAffinity":{"clusterNames":["member1"]}},"preserveResourcesOnDeletion":true,"resourceSelectors":[{"apiVersion":"v1","kind":"Service","name":"kept"}]}}
{"apiVersion":"policy.karmada.io/v1alpha1","kind":"PropagationPolicy","metadata":{"annotations":{},"labels":{"team":"shop"},"name":"web","namespace":"shop"},"spec":{"conflictResolution":"Abort","placement":{"clusterAffinity":{"clusterNames":["member2","member1"]},"clusterTolerations":[{"effect":"NoExecute","key":"cluster.karmada.io/not-ready","operator":"Exists","tolerationSeconds":300}]},"preemption":"Never","priority":0,"propagateDeps":true,"resourceSelectors":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},{"apiVersion":"v1","kind":"Service","name":"web"}],"schedulerName":"default-scheduler"}}
`

// What is to be applied names each resource, its clusters, and the replicas that the
// scheduler has divided.
func TestObjects(t *testing.T) {
	t.Parallel()
	for name, programs := range paths(t) {
		for arguments, want := range map[string]string{
			"objects -A": objects, "objects --divided -A": divided + objects, "policies -A": copies,
		} {
			t.Run(name+" "+arguments, func(t *testing.T) {
				t.Parallel()
				printed, err := run(t, programs, strings.Fields(arguments)...)
				if err != nil {
					t.Fatalf("%v: %s", err, printed)
				}
				if got := compact(t, printed); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// A wrong argument is answered with the usage, and a failing kubectl is a failure.
func TestMistakes(t *testing.T) {
	t.Parallel()
	programs := path(t, "kubectl", "jq")
	for arguments, want := range map[string]string{
		"": "policies.sh report|policies|objects|preserve|release", "delete -A": "policies.sh report|", "report -n": "kubectl is run with",
	} {
		if got, err := run(t, programs, strings.Fields(arguments)...); err == nil || !strings.Contains(got, want) {
			t.Errorf("%q: error %v, got %s, want %q", arguments, err, got, want)
		}
	}
}
