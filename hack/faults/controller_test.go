//go:build faults

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

package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// controller is a controller-manager as a process.
type controller struct {
	program    string
	kubeconfig string
	// logs is the file that takes what it prints, over all its lives.
	logs string

	command *exec.Cmd
	ended   chan struct{}
	err     error

	mu sync.Mutex
	// running: nobody has asked it to end.
	running bool
}

// fault reports that the process ended although nobody ended it; nil while it
// runs, before it was started, and when it was ended.
func (c *controller) fault() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return nil
	}
	select {
	case <-c.ended:
		return fmt.Errorf("the controller ended by itself, with %v; its log is %s", c.err, c.logs)
	default:
		return nil
	}
}

func (c *controller) runs(running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = running
}

// start starts the process. Ports are the kernel's to choose: nobody asks them.
func (c *controller) start(arguments ...string) error {
	log, err := os.OpenFile(c.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the controller's log: %w", err)
	}
	defer log.Close()
	if len(arguments) == 0 {
		arguments = []string{"--leader-elect=false"}
	}
	arguments = append([]string{
		"--kubeconfig=" + c.kubeconfig, "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0",
	}, arguments...)
	c.command = exec.Command(c.program, arguments...)
	c.command.Stdout, c.command.Stderr = log, log
	// In a group of its own, it does not get the Ctrl-C that the tests get; and
	// it does not outlive them, whatever ends them.
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	fmt.Fprintf(log, "==== start %s\n", strings.Join(arguments, " "))
	if err := startOnLastingThread(c.command); err != nil {
		return fmt.Errorf("starting the controller: %w", err)
	}
	ended := make(chan struct{})
	c.mu.Lock()
	c.ended, c.running = ended, true
	c.mu.Unlock()
	go func() {
		c.err = c.command.Wait()
		close(ended)
	}()
	return nil
}

// end ends the process with a signal, and returns how it ended.
func (c *controller) end(signal syscall.Signal) error {
	select {
	case <-c.ended:
		return errors.New("the controller's process had ended before")
	default:
	}
	c.runs(false)
	_ = c.command.Process.Signal(signal)
	select {
	case <-c.ended:
	case <-time.After(40 * time.Second):
		_ = c.command.Process.Kill()
		<-c.ended
		return fmt.Errorf("the controller did not end within 40 s of %v and was killed", signal)
	}
	if signal == syscall.SIGKILL {
		return nil
	}
	return c.err
}

// startOnLastingThread starts a process from a thread that lives as long as
// the tests do: Linux sends the signal of a parent's death when the thread
// dies that started the child.
func startOnLastingThread(command *exec.Cmd) error {
	result := make(chan error)
	lastingThread() <- func() { result <- command.Start() }
	return <-result
}

var lastingThread = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})
