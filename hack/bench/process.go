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
	"fmt"
	"os"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
	"github.com/karmada-direct/karmada-direct/hack/testbed/machine"
)

// process is a measured controller.
type process struct {
	machine.Process
	// ready is a URL that returns status 200 when the process is ready.
	ready string
}

// newProcess returns a process that is not yet started.
func newProcess(name, program, log, ready string, arguments ...string) *process {
	p := &process{ready: ready}
	p.Name, p.Program, p.Log, p.Arguments = name, program, log, arguments
	return p
}

// start starts the process and waits until it is ready.
func (p *process) start(ctx context.Context, arguments ...string) error {
	if err := p.Start(arguments...); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, testbed.Glance, testbed.Patience, true, func(ctx context.Context) (bool, error) {
		return machine.Answers(ctx, p.ready), p.Fault()
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be ready: %w; see %s", p.Name, err, p.Log)
	}
	return nil
}

// end stops the process if it is running. Its log shows how it ended.
func (p *process) end() {
	if p != nil {
		_ = p.Terminate()
	}
}

// cpuSeconds returns the CPU time that a process has used since its start.
func cpuSeconds(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // a program's name may contain spaces
	fields := strings.Fields(rest)
	const user, system, ticksASecond = 14 - 3, 15 - 3, 100
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseFloat(fields[user], 64)
	s, _ := strconv.ParseFloat(fields[system], 64)
	return (u + s) / ticksASecond
}

// resetPeak resets the peak of a process's memory to its current use.
func resetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600) // otherwise, the peak covers a longer time
}

// memoryMiB returns a field of /proc/<pid>/status: VmHWM, the peak, or VmRSS.
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
