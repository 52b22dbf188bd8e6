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
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// ControllerAccount is the account of the controller on the Karmada API server.
const ControllerAccount = "system:serviceaccount:karmada-system:karmada-direct"

// Controller is a controller-manager process. It runs without leader election unless
// an argument of Start enables it.
type Controller struct {
	machine.Process
	// Kubeconfig is the path of the kubeconfig that the process uses.
	Kubeconfig string

	bed *Bed
}

// installController builds the controller and installs its CRDs and RBAC on the
// Karmada API server. Controllers then have exactly the permissions of the default
// role.
func (b *Bed) installController(ctx context.Context) error {
	if b.program = b.env("CONTROLLER"); b.program == "" {
		b.program = b.File("controller-manager")
		b.say("building the controller")
		if err := machine.BuildController(ctx, b.Root, b.program); err != nil {
			return err
		}
	}
	b.credentials = b.File("controller.kubeconfig")
	commands := [][]string{{"install-crds"}, {"install-rbac"}}
	if b.Options.Guardrails {
		commands = append(commands, []string{"install-guardrails", "--controller-users=" + ControllerAccount + "," + b.Options.User})
	}
	commands = append(commands, []string{"write-kubeconfig", "--output=" + b.credentials})
	for _, arguments := range commands {
		arguments = append(arguments, "--kubeconfig", b.Fleet.Kubeconfig("karmada"))
		if printed, err := exec.CommandContext(ctx, b.program, arguments...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", arguments[0], err, printed)
		}
	}
	return nil
}

func (b *Bed) startController(context.Context) (err error) {
	if b.Options.Audited {
		if b.Audit, err = b.NewAudit(); err != nil {
			return err
		}
	}
	if b.Controller, err = b.NewController("controller", b.Audit); err != nil {
		return err
	}
	return b.Controller.Start()
}

// NewController returns a controller with its own log, not yet started. If audit is
// not nil, the controller's requests pass through it.
func (b *Bed) NewController(name string, audit *Audit) (*Controller, error) {
	c := &Controller{Kubeconfig: b.credentials, bed: b}
	if audit != nil {
		c.Kubeconfig = b.File(name + "-audited.kubeconfig")
		if err := clientcmd.WriteToFile(*kubeconfigFor(audit.URL()), c.Kubeconfig); err != nil {
			return nil, fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
		}
	}
	c.Name, c.Program, c.Log = name, b.program, b.File(name+".log")
	// The kernel may choose the ports, because no test connects to them.
	c.Arguments = []string{
		"--kubeconfig=" + c.Kubeconfig, "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--leader-elect=false",
	}
	if err := os.RemoveAll(c.Log); err != nil {
		return nil, fmt.Errorf("removing an old log: %w", err)
	}
	return c, nil
}

func kubeconfigFor(server string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["karmada"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["karmada"] = &clientcmdapi.Context{Cluster: "karmada"}
	config.CurrentContext = "karmada"
	return config
}

// Terminate ends the controller with SIGTERM, as a kubelet does, and returns how it ended. A
// process that has just been started does not handle the signal yet, so Terminate waits for
// its first words.
func (c *Controller) Terminate() error {
	if c.PID() != 0 && c.Fault() == nil {
		if err := c.AwaitLog(`"starting`); err != nil {
			return err
		}
	}
	return c.Process.Terminate() //nolint:wrapcheck // it names the process
}

// AwaitLog waits until the controller has logged the words since its last start. The
// words must be lowercase; the case of the log is ignored.
func (c *Controller) AwaitLog(words string) error {
	return c.bed.Await(context.Background(), fmt.Sprintf("%s logs %q", filepath.Base(c.Log), words), func(context.Context) error {
		text, err := c.LogSinceStart()
		if err != nil {
			return err
		}
		if !strings.Contains(strings.ToLower(text), words) {
			return fmt.Errorf("it has not; its last lines: %s", machine.Tail(c.Log, 5, nil))
		}
		return nil
	})
}

// tail returns the last lines of the log that contain a word or begin with "Error:",
// as the last line of a controller that failed to start does.
func (c *Controller) tail(word string, count int) string {
	return machine.Tail(c.Log, count, func(line string) bool {
		return strings.Contains(line, word) || strings.HasPrefix(line, "Error:")
	})
}
