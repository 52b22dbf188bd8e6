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

package machine

import (
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

// endPatience is the time that a process has to end after a signal.
const endPatience = 40 * time.Second

// Process is a program that this process starts and stops, and that never outlives
// it.
type Process struct {
	// Name is the name of the process in messages.
	Name string
	// Program is the path of the executable.
	Program string
	// Log is the file for the output of the process, across all its starts.
	Log string
	// Arguments are the arguments of every start.
	Arguments []string

	mu   sync.Mutex
	life *life
}

// life is one run of the process, from start to end.
type life struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// Start starts the process. Its arguments follow those of every start.
func (p *Process) Start(arguments ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.Name, err)
	}
	defer log.Close()
	arguments = append(slices.Clone(p.Arguments), arguments...)
	command := exec.Command(p.Program, arguments...) //nolint:noctx // it is ended by its signal, not by a context
	command.Stdout, command.Stderr = log, log
	// In its own process group, the child does not receive a Ctrl-C that is meant for
	// its parent. Pdeathsig ensures that it does not outlive its parent.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	fmt.Fprintf(log, "%s %s\n", startMark, strings.Join(arguments, " "))
	if err := OnLastingThread(command.Start); err != nil {
		return fmt.Errorf("starting %s: %w", p.Name, err)
	}
	current := &life{command: command, ended: make(chan struct{})}
	go func() {
		current.err = command.Wait()
		close(current.ended)
	}()
	p.life = current
	return nil
}

// Kill ends the process with SIGKILL and returns when it is dead.
func (p *Process) Kill() { _ = p.End(syscall.SIGKILL) } // the result is known

// Terminate ends the process with SIGTERM, as a kubelet does, and returns how it
// ended.
func (p *Process) Terminate() error { return p.End(syscall.SIGTERM) }

// End ends the process with a signal and returns how it ended. It returns nil after
// SIGKILL, and if the process was already stopped or never started.
func (p *Process) End(signal syscall.Signal) error {
	p.mu.Lock()
	current := p.life
	p.life = nil
	p.mu.Unlock()
	if current == nil {
		return nil
	}
	select {
	case <-current.ended:
		return fmt.Errorf("%s had already exited: %v; its log is %s", p.Name, current.command.ProcessState, p.Log)
	default:
	}
	_ = current.command.Process.Signal(signal) // it may have just died
	select {
	case <-current.ended:
	case <-time.After(endPatience):
		_ = current.command.Process.Kill()
		<-current.ended
		return fmt.Errorf("%s did not end within %v of %v and was killed", p.Name, endPatience, signal)
	}
	if signal == syscall.SIGKILL {
		return nil
	}
	return current.err
}

// Fault returns an error if the process exited unexpectedly. It returns nil while
// the process is running, before its first start, and after End.
func (p *Process) Fault() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return nil
	}
	select {
	case <-p.life.ended:
		return fmt.Errorf("%s exited unexpectedly: %v; its log is %s", p.Name, p.life.command.ProcessState, p.Log)
	default:
		return nil
	}
}

// PID returns the ID of the process, or 0 if it was not started or was stopped.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life == nil {
		return 0
	}
	return p.life.command.Process.Pid
}

// OnLastingThread calls a function that starts a process on a thread that lives as
// long as this process. Linux sends Pdeathsig when the thread that started the child
// ends, not when the whole process does.
func OnLastingThread(start func() error) error {
	result := make(chan error)
	lastingThread() <- func() { result <- start() }
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
