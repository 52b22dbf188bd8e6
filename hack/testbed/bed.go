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
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	configv1alpha1 "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	policyv1alpha1 "github.com/karmada-io/karmada/pkg/apis/policy/v1alpha1"
	workv1alpha1 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// Options configures what a test package needs.
type Options struct {
	// Name is the prefix of each line that is printed about a run. Programs, logs and
	// kubeconfigs are in bin/<Name>.
	Name string
	// Env is the prefix of the environment variables, without an underscore.
	// <Env>_FLEET is the folder of a running fleet, <Env>_KEEP leaves the fleet
	// running, and <Env>_CONTROLLER is the path of a controller that is already built.
	Env string
	// Fleet is the name of the fleet. It defaults to Name.
	Fleet string
	// FleetFlags are additional flags of "fleet up".
	FleetFlags []string
	// Members are the members that the tests use. Their clients are set when the fleet
	// is up.
	Members []*Member
	// User is the user that the tests impersonate on the Karmada API server. If it is
	// empty, the tests are the admin. Karmada's components are system:admin, which the
	// guardrails restrict. Tests do what no user should do, so they need another name.
	User string
	// Controller builds, installs and starts the controller.
	Controller bool
	// Audited routes the requests of Bed.Controller through Bed.Audit.
	Audited bool
	// Guardrails installs the guardrails and exempts User from them.
	Guardrails bool
	// Unbroken makes every wait fail after a watch has missed states.
	Unbroken bool
	// Parallel, if not 0, is the number of tests that run in parallel. Tests mostly wait,
	// so it may exceed the number of cores.
	Parallel int
	// Finish, if not nil, is called after the tests, while the fleet is still running.
	// It is not called if the tests are interrupted.
	Finish func() error
}

// Bed holds everything that the tests of a package share.
type Bed struct {
	Options Options
	// Root is the root folder of the repository.
	Root  string
	Fleet *machine.Fleet
	// Karmada is a client of the control plane that never goes through Audit. Config is
	// its configuration.
	Karmada client.WithWatch
	Config  *rest.Config
	// Propagations records all DirectPropagations. It is nil without a controller.
	Propagations *Recorder
	// Controller is the controller that most tests use.
	Controller *Controller
	// Audit is the proxy of Controller. It is nil unless Options.Audited is set.
	Audit *Audit

	out    io.Writer
	audits []*Audit
	// program and credentials are shared by all controllers.
	program, credentials string
	failed               failures
}

// Scheme contains every kind that is read or written as a Go type.
var Scheme = newScheme()

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1alpha1.Install, configv1alpha1.Install, policyv1alpha1.Install,
		workv1alpha1.Install, workv1alpha2.Install, propagationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("building the scheme: %v", err))
		}
	}
	return scheme
}

func newBed(options Options, out io.Writer) *Bed {
	if options.Fleet == "" {
		options.Fleet = options.Name
	}
	return &Bed{Options: options, out: out}
}

// Keep reports whether the fleet keeps running after the tests.
func (b *Bed) Keep() bool { return b.env("KEEP") != "" }

func (b *Bed) env(name string) string { return os.Getenv(b.Options.Env + "_" + name) }

// File returns the path of a file in the folder of this test package.
func (b *Bed) File(name string) string { return filepath.Join(b.Root, "bin", b.Options.Name, name) }

// up sets up everything that the tests share. If a step fails, down cleans up the
// earlier ones.
func (b *Bed) up(ctx context.Context) (err error) {
	if b.Root, err = machine.Root(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{b.upFleet, b.connect}
	if b.Options.Controller {
		steps = append(steps, b.installController, b.record, b.startController)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// upFleet finds the fleet that the environment names. Otherwise, it starts a fleet
// and first stops one that an earlier run has left.
func (b *Bed) upFleet(ctx context.Context) (err error) {
	b.say("building the fleet program")
	if dir := b.env("FLEET"); dir != "" {
		b.Fleet, err = machine.FindFleet(ctx, b.Root, dir, b.File("fleet"))
		return err
	}
	fleet, err := machine.NewFleet(ctx, b.Root, b.Options.Fleet, b.File("fleet"))
	if err != nil {
		return err
	}
	b.Fleet = fleet
	if err := fleet.Down(ctx, b.out); err != nil {
		return err
	}
	flags := b.Options.FleetFlags
	if version := b.env("KARMADA_VERSION"); version != "" {
		flags = append(slices.Clone(flags), "--karmada-version="+version)
	}
	return fleet.Up(ctx, b.out, b.Keep(), flags...)
}

// connect creates the clients of Karmada and of the members.
func (b *Bed) connect(context.Context) (err error) {
	if b.Config, err = b.ConfigOf("karmada"); err != nil {
		return err
	}
	if b.Options.User != "" {
		b.Config.Impersonate = rest.ImpersonationConfig{UserName: b.Options.User, Groups: []string{"system:masters", "system:authenticated"}}
	}
	if b.Karmada, err = client.NewWithWatch(b.Config, client.Options{Scheme: Scheme}); err != nil {
		return fmt.Errorf("connecting to Karmada: %w", err)
	}
	for _, member := range b.Options.Members {
		if !slices.Contains(b.Fleet.State.Members, machine.FleetMember{Name: member.Name, Mode: member.Mode}) {
			return fmt.Errorf("the fleet in %s has no member %s", b.Fleet.Dir, member)
		}
		if member.Client, err = b.Connect(member.Name); err != nil {
			return err
		}
	}
	return nil
}

// Connect returns a client of a control plane: karmada, host, or a member.
func (b *Bed) Connect(plane string) (client.WithWatch, error) {
	config, err := b.ConfigOf(plane)
	if err != nil {
		return nil, err
	}
	connected, err := client.NewWithWatch(config, client.Options{Scheme: Scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", plane, err)
	}
	return connected, nil
}

// ConfigOf returns the admin configuration of a control plane. It has no rate limit,
// because a throttled client would observe states late.
func (b *Bed) ConfigOf(plane string) (*rest.Config, error) {
	return ConfigFrom(b.Fleet.Kubeconfig(plane))
}

// ConfigFrom reads a client configuration from a kubeconfig and removes the rate
// limit.
func ConfigFrom(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	return config, nil
}

func (b *Bed) record(ctx context.Context) (err error) {
	b.Propagations, err = b.Record(ctx, &propagationv1alpha1.DirectPropagationList{})
	return err
}

// down stops everything that up started.
func (b *Bed) down() error {
	var errs []error
	if b.Controller != nil {
		errs = append(errs, b.Controller.Terminate())
		b.say("the log of the controller is in %s", b.Controller.Log)
	}
	for _, audit := range b.audits {
		errs = append(errs, audit.Close())
	}
	switch {
	case b.Fleet == nil:
	case b.Keep():
		b.sayHowToGoOn()
	default:
		// Shut the fleet down cleanly, no matter what ended the tests.
		errs = append(errs, b.Fleet.Down(context.Background(), b.out))
	}
	return errors.Join(errs...)
}

func (b *Bed) sayHowToGoOn() {
	b.say("%s_KEEP is set, so the fleet keeps running. To reach it, and to run the tests on it again:", b.Options.Env)
	fmt.Fprintf(b.out, "  export PATH=%s:$PATH KUBECONFIG=%s\n", b.Fleet.State.Bin, b.Fleet.Kubeconfig("karmada"))
	if b.Options.Controller {
		fmt.Fprintf(b.out, "  %s --kubeconfig %s --leader-elect=false &\n  kubectl get directpropagations --all-namespaces\n", b.program, b.Fleet.Kubeconfig("karmada"))
	}
	fmt.Fprintf(b.out, "  %s_FLEET=%s make %s\n", b.Options.Env, b.Fleet.Dir, b.Options.Name)
}
