//go:build e2e_helm

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

package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
)

const (
	fleetName = "e2e-helm"
	// patience is how long anything that must happen may take, on a busy machine.
	patience = 2 * time.Minute
	glance   = 50 * time.Millisecond
)

// What all tests share.
var (
	// root is the folder of the repository.
	root string
	// fleet is where the fleet keeps its state, and its programs.
	fleet struct {
		Dir string `json:"dir"`
		Bin string `json:"bin"`
	}
	// fleetProgram is empty for a fleet that somebody else runs.
	fleetProgram string

	karmada client.Client
	host    client.WithWatch
	members = map[string]client.Client{"member1": nil, "member2": nil}
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runTests(ctx, m)
	stop()
	os.Exit(code)
}

func runTests(ctx context.Context, m *testing.M) (code int) {
	defer func() {
		if err := takeDown(os.Stdout); err != nil {
			fmt.Println("e2e-helm: taking down:", err)
			code = max(code, 1)
		}
	}()
	if err := bringUp(ctx, os.Stdout); err != nil {
		fmt.Println("e2e-helm:", err)
		return 1
	}
	result := make(chan int, 1)
	go func() { result <- m.Run() }()
	select {
	case code = <-result:
		return code
	case <-ctx.Done():
		fmt.Println("e2e-helm: interrupted")
		return 130
	}
}

func bringUp(ctx context.Context, out io.Writer) error {
	module, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	root = filepath.Dir(string(module))
	dir := os.Getenv("E2E_FLEET")
	switch {
	case dir == "":
		dir = filepath.Join(root, ".fleet", fleetName)
		if err := upFleet(ctx, out); err != nil {
			return err
		}
	case !filepath.IsAbs(dir):
		dir = filepath.Join(root, dir)
	}
	state, err := os.ReadFile(filepath.Join(dir, "fleet.json"))
	if err != nil {
		return fmt.Errorf("reading the state of the fleet: %w", err)
	}
	if err := json.Unmarshal(state, &fleet); err != nil {
		return fmt.Errorf("reading the state of the fleet: %w", err)
	}
	return connect()
}

func upFleet(ctx context.Context, out io.Writer) error {
	program := filepath.Join(root, "bin", "e2e", "fleet")
	compile := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	compile.Dir = filepath.Join(root, "hack", "fleet")
	compile.Stdout, compile.Stderr = out, out
	if err := compile.Run(); err != nil {
		return fmt.Errorf("building fleet: %w", err)
	}
	fleetProgram = program
	if err := runFleet(ctx, out, "down"); err != nil { // of a run before
		return err
	}
	return runFleet(ctx, out, "up", "--host")
}

func runFleet(ctx context.Context, out io.Writer, arguments ...string) error {
	command := exec.CommandContext(ctx, fleetProgram, append(arguments, "--name", fleetName)...)
	command.Dir = root
	command.Stdout, command.Stderr = out, out
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	if err := command.Run(); err != nil {
		return fmt.Errorf("fleet %s: %w", arguments[0], errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

func takeDown(out io.Writer) error {
	if fleetProgram == "" {
		return nil
	}
	if os.Getenv("E2E_KEEP") != "" {
		fmt.Fprintf(out, "e2e-helm: E2E_KEEP is set, the fleet runs on: E2E_FLEET=%s make e2e-helm\n", fleet.Dir)
		return nil
	}
	return runFleet(context.Background(), out, "down")
}

// kubeconfig is the path of the admin kubeconfig of a control plane.
func kubeconfig(plane string) string { return filepath.Join(fleet.Dir, plane+".kubeconfig") }

func connect() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, workv1alpha1.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	to := func(plane string) (client.WithWatch, error) {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig(plane))
		if err != nil {
			return nil, fmt.Errorf("reading the kubeconfig of %s: %w", plane, err)
		}
		config.QPS = -1
		return client.NewWithWatch(config, client.Options{Scheme: scheme})
	}
	var err error
	if karmada, err = to("karmada"); err != nil {
		return err
	}
	if host, err = to("host"); err != nil {
		return fmt.Errorf("a fleet with a host cluster is wanted (fleet up --host): %w", err)
	}
	for name := range members {
		if members[name], err = to(name); err != nil {
			return err
		}
	}
	return nil
}

// eventually waits until check returns nil, and fails with its last complaint
// when it never does.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var complaint error
	// Cleaning up waits too, when the test's own context is done.
	err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), glance, patience, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); err != nil {
			if ctx.Err() == nil {
				complaint = err
			}
			return false, nil
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("waited %v until %s: %v", patience, what, complaint)
	}
}
