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

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// process is a controller that is measured.
type process struct {
	name    string
	program string
	log     string
	ready   string
	// arguments are those of every start.
	arguments []string

	command *exec.Cmd
	ended   chan struct{}
}

// start starts the process and waits until it is ready.
func (p *process) start(ctx context.Context, arguments ...string) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.name, err)
	}
	defer log.Close()
	arguments = append(slices.Clone(p.arguments), arguments...)
	fmt.Fprintf(log, "==== start %s\n", strings.Join(arguments, " "))
	command := exec.Command(p.program, arguments...) //nolint:noctx // it is ended by its signal, not by the context
	command.Stdout, command.Stderr = log, log
	// In a group of its own, it does not get the Ctrl-C that this program gets;
	// and it does not outlive it, whatever ends it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := startOnLastingThread(command); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // how it ended is in its log
		close(ended)
	}()
	p.command, p.ended = command, ended
	err = wait.PollUntilContextTimeout(ctx, glance, patience, true, func(ctx context.Context) (bool, error) {
		select {
		case <-ended:
			return false, errors.New("it ended by itself")
		default:
			return answers(ctx, p.ready), nil
		}
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be ready: %w; see %s", p.name, err, p.log)
	}
	return nil
}

// startOnLastingThread starts a process from a thread that lives as long as
// this program does: Linux sends the signal of a parent's death when the thread
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

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// end ends the process, if it runs.
func (p *process) end() {
	if p == nil || p.command == nil {
		return
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.command.Process.Signal(signal) // it may be dead already
		select {
		case <-p.ended:
			p.command = nil
			return
		case <-time.After(20 * time.Second):
		}
	}
}

func (p *process) pid() int {
	if p.command == nil {
		return 0
	}
	return p.command.Process.Pid
}

// cpuSeconds is what a process has taken of the processors since its start.
func cpuSeconds(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // a program's name may hold blanks
	fields := strings.Fields(rest)
	const user, system, ticksASecond = 14 - 3, 15 - 3, 100
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseFloat(fields[user], 64)
	s, _ := strconv.ParseFloat(fields[system], 64)
	return (u + s) / ticksASecond
}

// resetPeak makes the peak of memory start from what is in use now.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600) // the peak is then that of a longer time
}

// memoryMiB reads a field of /proc/<pid>/status: VmHWM, the peak, or VmRSS.
func memoryMiB(pid int, field string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			kib, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024
		}
	}
	return 0
}
