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
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Identity distinguishes a process from every other process that has ever run on the
// machine. A process ID alone is reused.
type Identity struct {
	PID int `json:"pid"`
	// StartTime is in clock ticks since boot: field 22 of /proc/<pid>/stat. BootID
	// identifies the boot.
	StartTime uint64 `json:"startTime"`
	BootID    string `json:"bootID"`
}

// procfs reads process information from the kernel. Tests can change the root.
type procfs struct{ root string }

var proc = procfs{root: "/proc"}

// identify returns the identity of the process that currently has a process ID.
func (fs procfs) identify(pid int) (*Identity, error) {
	boot, err := os.ReadFile(fs.root + "/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("reading the boot id: %w", err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", fs.root, pid))
	if err != nil {
		return nil, err
	}
	now, err := parseStat(stat)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	if now.isDead() {
		return nil, os.ErrProcessDone // its parent has not waited for it yet
	}
	return &Identity{PID: pid, StartTime: now.startTime, BootID: strings.TrimSpace(string(boot))}, nil
}

// procStat is what /proc/<pid>/stat says about a process.
type procStat struct {
	state     byte
	threads   int
	startTime uint64
}

// isDead reports whether a process has ended. After a signal, its first thread is a zombie
// while others still end. Until they have, the process has its ports.
func (s procStat) isDead() bool {
	return s.state == 'X' || s.state == 'Z' && s.threads <= 1
}

// runs reports whether the process with this identity is still running.
func (fs procfs) runs(id *Identity) bool {
	if id == nil {
		return false
	}
	now, err := fs.identify(id.PID)
	return err == nil && *now == *id
}

// signal sends a signal to the process. It returns os.ErrProcessDone if the process
// is gone, even if another process has its ID now.
func (fs procfs) signal(id *Identity, signal os.Signal) error {
	// On Linux, the handle refers to the process, not to its ID. It is opened before
	// the start time is checked: if the process ends in between, the signal fails and
	// does not reach a process that reuses the ID.
	process, err := os.FindProcess(id.PID)
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	if !fs.runs(id) {
		return os.ErrProcessDone
	}
	return process.Signal(signal)
}

// parseStat reads /proc/<pid>/stat. The second field, the program's name, may contain
// spaces and parentheses, so fields are counted from the last closing parenthesis.
func parseStat(stat []byte) (procStat, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return procStat{}, errors.New("stat has no program name")
	}
	fields := strings.Fields(string(stat[end+1:]))
	// The first remaining field is field 3.
	const stateField, threadsField, startTimeField = 0, 20 - 3, 22 - 3
	if len(fields) <= startTimeField {
		return procStat{}, errors.New("stat is too short")
	}
	threads, err := strconv.Atoi(fields[threadsField])
	if err != nil {
		return procStat{}, fmt.Errorf("number of threads: %w", err)
	}
	startTime, err := strconv.ParseUint(fields[startTimeField], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("start time: %w", err)
	}
	return procStat{state: fields[stateField][0], threads: threads, startTime: startTime}, nil
}
