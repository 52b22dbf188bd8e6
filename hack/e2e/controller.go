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
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// controller is the controller-manager as a process.
type controller struct {
	program    string
	kubeconfig string
	// logs is the file that takes what it prints, over all its lives.
	logs string

	mu   sync.Mutex
	life *life
}

// life is one process, from its start to its end.
type life struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// start starts the process. Ports are the kernel's to choose: nobody asks them.
func (c *controller) start(arguments ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	log, err := os.OpenFile(c.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the controller's log: %w", err)
	}
	defer log.Close()
	arguments = append([]string{
		"--kubeconfig=" + c.kubeconfig,
		"--metrics-bind-address=127.0.0.1:0",
		"--health-probe-bind-address=127.0.0.1:0",
		"--leader-elect=false",
	}, arguments...)
	command := exec.Command(c.program, arguments...)
	command.Stdout, command.Stderr = log, log
	// In a group of its own, it does not get the Ctrl-C that the tests get; and
	// it does not outlive them, whatever ends them.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	fmt.Fprintf(log, "==== start %s\n", strings.Join(arguments, " "))
	if err := startOnLastingThread(command); err != nil {
		return fmt.Errorf("starting the controller: %w", err)
	}
	current := &life{command: command, ended: make(chan struct{})}
	go func() {
		current.err = command.Wait()
		close(current.ended)
	}()
	c.life = current
	return nil
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

// kill ends the process with no chance to do anything more, and returns when
// it is dead.
func (c *controller) kill() { _ = c.end(syscall.SIGKILL) } // how it ended is known

// terminate asks the process to end, as a kubelet does, and returns how it
// ended.
func (c *controller) terminate() error { return c.end(syscall.SIGTERM) }

func (c *controller) end(signal syscall.Signal) error {
	c.mu.Lock()
	current := c.life
	c.life = nil
	c.mu.Unlock()
	if current == nil {
		return nil
	}
	_ = current.command.Process.Signal(signal) // it may be dead already
	select {
	case <-current.ended:
	case <-time.After(40 * time.Second):
		_ = current.command.Process.Kill()
		<-current.ended
		return fmt.Errorf("the controller did not end within 40 s of %v and was killed", signal)
	}
	return current.err
}

// fault tells that the process ended although nobody ended it; nil while it
// runs or when it was ended.
func (c *controller) fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life == nil {
		return nil
	}
	select {
	case <-c.life.ended:
		return fmt.Errorf("the controller's process has ended by itself: %v", c.life.command.ProcessState)
	default:
		return nil
	}
}

// tail returns the last lines of the log that contain a word.
func (c *controller) tail(word string, count int) string {
	content, err := os.ReadFile(c.logs)
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(content), "\n"), func(line string) bool {
		return !strings.Contains(line, word) && !strings.HasPrefix(line, "Error:")
	})
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// awaitLog waits until the process has logged something, in lower case, in its
// present life.
func (c *controller) awaitLog(words string) error {
	return awaits(context.Background(), fmt.Sprintf("the controller logs %q", words), func(context.Context) error {
		content, err := os.ReadFile(c.logs)
		if err != nil {
			return fmt.Errorf("reading the controller's log: %w", err)
		}
		text := strings.ToLower(string(content))
		if !strings.Contains(text[strings.LastIndex(text, "==== start"):], words) {
			return fmt.Errorf("it has not: %s", c.tail("", 5))
		}
		return nil
	})
}
