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
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

// tester is the user that tests are on the control plane.
const tester = "e2e"

// What all tests share, from the first to the last.
var (
	// keep leaves fleet and controller running.
	keep = os.Getenv("E2E_KEEP") != ""
	// seed is where random numbers come from: E2E_SEED, or the time.
	seed = seedFrom(os.Getenv("E2E_SEED"))
	// scheme knows every kind that tests read or write as Go types.
	scheme = runtime.NewScheme()
	// ground is the fleet.
	ground *fleet
	// karmada is the control plane, as its users see it: not through auditing.
	karmada client.WithWatch
	// auditing is what the controller's requests pass through.
	auditing *auditor
	// manager is the controller's process.
	manager *controller
)

// bringUp makes all that tests share. What was made before something failed
// is there to be taken down.
func bringUp(ctx context.Context, out io.Writer) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	if dir := os.Getenv("E2E_FLEET"); dir != "" {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(root, dir) // go test runs in the package's own folder
		}
		ground, err = findFleet(dir)
	} else {
		ground, err = upFleet(ctx, root, out)
	}
	if err != nil {
		return err
	}
	if err := connect(); err != nil {
		return err
	}
	return startController(ctx, root, out)
}

// takeDown ends all that bringUp began.
func takeDown(out io.Writer) error {
	if keep && ground != nil {
		fmt.Fprintf(out, `
e2e: E2E_KEEP is set, the fleet runs on. To reach it, and to start the controller again:
  export PATH=%s:$PATH KUBECONFIG=%s
  %s --kubeconfig %s --leader-elect=false &
  kubectl get directpropagations --all-namespaces
  E2E_FLEET=%s go test -tags e2e -count 1 -v ./hack/e2e
`, ground.Bin, ground.kubeconfig("karmada"), filepath.Join("bin", "e2e", "controller-manager"), ground.kubeconfig("karmada"), ground.Dir)
	}
	var errs []error
	if manager != nil {
		errs = append(errs, manager.terminate())
		fmt.Fprintf(out, "e2e: the controller's log is %s\n", manager.logs)
	}
	if auditing != nil {
		errs = append(errs, auditing.close())
	}
	if ground != nil && !keep {
		// Whatever ended the tests, the fleet is ended in peace.
		errs = append(errs, ground.down(context.Background(), out))
	}
	return errors.Join(errs...)
}

// repository is the folder of the repository.
func repository(ctx context.Context) (string, error) {
	path, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	return filepath.Dir(string(path)), nil
}

func connect() error {
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1alpha1.Install, configv1alpha1.Install, policyv1alpha1.Install,
		workv1alpha1.Install, workv1alpha2.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	config, err := configOf("karmada")
	if err != nil {
		return err
	}
	// Karmada's components are system:admin here, and under the guardrails. The
	// tests do what no user should, so they are somebody else.
	config.Impersonate = rest.ImpersonationConfig{UserName: tester, Groups: []string{"system:masters", "system:authenticated"}}
	if karmada, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("connecting to Karmada: %w", err)
	}
	for _, member := range members {
		if !slices.ContainsFunc(ground.Members, func(m struct {
			Name string `json:"name"`
			Mode string `json:"mode"`
		},
		) bool {
			return m.Name == member.Name && m.Mode == member.Mode
		}) {
			return fmt.Errorf("the fleet in %s has no member %s", ground.Dir, member)
		}
		config, err := configOf(member.Name)
		if err != nil {
			return err
		}
		if member.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
			return fmt.Errorf("connecting to %s: %w", member, err)
		}
	}
	return nil
}

// configOf tells how to reach Karmada or a member, with no limit of our own:
// what is observed should be observed at once.
func configOf(plane string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", ground.kubeconfig(plane))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", plane, err)
	}
	config.QPS = -1
	return config, nil
}

// startController builds the controller, installs with it what belongs on the
// Karmada API server, and starts it.
func startController(ctx context.Context, root string, out io.Writer) error {
	folder := filepath.Join(root, "bin", "e2e")
	program, err := os.Getenv("E2E_CONTROLLER"), error(nil)
	if program == "" {
		program, err = build(ctx, root, "./cmd/controller-manager", filepath.Join(folder, "controller-manager"), out)
	}
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(folder, "controller.kubeconfig")
	for _, arguments := range [][]string{
		{"install-crds"},
		{"install-rbac"},
		{"install-guardrails", "--controller-users=system:serviceaccount:karmada-system:karmada-direct," + tester},
		{"write-kubeconfig", "--output=" + kubeconfig},
	} {
		install := exec.CommandContext(ctx, program, append(arguments, "--kubeconfig", ground.kubeconfig("karmada"))...)
		install.Stdout, install.Stderr = out, out
		if err := install.Run(); err != nil {
			return fmt.Errorf("%s: %w", arguments[0], err)
		}
	}
	// The controller has exactly the permissions of its roles, and reaches the API
	// server through the auditor. That adds the token, which clients send by TLS
	// alone.
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the controller's kubeconfig: %w", err)
	}
	if auditing, err = newAuditor(config); err != nil {
		return err
	}
	if err := clientcmd.WriteToFile(*kubeconfigFor(auditing.url()), kubeconfig); err != nil {
		return fmt.Errorf("writing the controller's kubeconfig: %w", err)
	}
	manager = &controller{program: program, kubeconfig: kubeconfig, logs: filepath.Join(folder, "controller.log")}
	if err := os.RemoveAll(manager.logs); err != nil {
		return fmt.Errorf("removing an old log: %w", err)
	}
	return manager.start()
}

func kubeconfigFor(server string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["karmada"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["karmada"] = &clientcmdapi.Context{Cluster: "karmada"}
	config.CurrentContext = "karmada"
	return config
}

// itemsOf returns the objects of a list.
func itemsOf(list client.ObjectList) []client.Object {
	extracted, err := meta.ExtractList(list)
	if err != nil {
		panic(err) // a list of anything else than objects is a mistake in the test
	}
	items := make([]client.Object, 0, len(extracted))
	for _, item := range extracted {
		object, _ := item.(client.Object)
		items = append(items, object)
	}
	return items
}

// typedOf returns an object as a Go type, if there is one of its kind.
func typedOf(generic *unstructured.Unstructured) (client.Object, error) {
	made, err := scheme.New(generic.GroupVersionKind())
	if err != nil {
		return generic, nil //nolint:nilerr // a kind without a Go type stays as it is
	}
	typed, _ := made.(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(generic.Object, typed); err != nil {
		return nil, fmt.Errorf("converting %s: %w", generic.GetName(), err)
	}
	return typed, nil
}

func seedFrom(given string) uint64 {
	if number, err := strconv.ParseUint(given, 10, 64); err == nil {
		return number
	}
	return uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
}
