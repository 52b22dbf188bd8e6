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

// Identity tells one process from every other that ever ran on the machine: a
// process id alone is used again and again.
type Identity struct {
	PID int `json:"pid"`
	// StartTime is in clock ticks since the machine's boot, field 22 of
	// /proc/<pid>/stat; BootID names that boot.
	StartTime uint64 `json:"startTime"`
	BootID    string `json:"bootID"`
}

// procfs reads the kernel's account of processes; its root is a test's to
// change.
type procfs struct{ root string }

var proc = procfs{root: "/proc"}

// identify reads who runs under a process id now.
func (fs procfs) identify(pid int) (*Identity, error) {
	boot, err := os.ReadFile(fs.root + "/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("reading the boot id: %w", err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", fs.root, pid))
	if err != nil {
		return nil, err
	}
	state, startTime, err := parseStat(stat)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	if state == 'Z' || state == 'X' {
		return nil, os.ErrProcessDone // dead, though its parent has not looked yet
	}
	return &Identity{PID: pid, StartTime: startTime, BootID: strings.TrimSpace(string(boot))}, nil
}

// runs tells whether the very process that id was read from still runs.
func (fs procfs) runs(id *Identity) bool {
	if id == nil {
		return false
	}
	now, err := fs.identify(id.PID)
	return err == nil && *now == *id
}

// signal sends a signal to the process, or returns os.ErrProcessDone when it
// is gone, even if another process has its id by now.
func (fs procfs) signal(id *Identity, signal os.Signal) error {
	// On Linux the handle stands for the process, not for its id. It is taken
	// before the look at the start time: if the process ends in between, the
	// signal fails instead of reaching whoever comes next.
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

// parseStat reads the state and the start time from /proc/<pid>/stat. The
// second field, the program's name, may hold blanks and brackets, so the rest
// is counted from the last closing bracket.
func parseStat(stat []byte) (state byte, startTime uint64, err error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, 0, errors.New("stat has no program name")
	}
	fields := strings.Fields(string(stat[end+1:]))
	const stateField, startTimeField = 0, 22 - 3 // the first one left is field 3
	if len(fields) <= startTimeField {
		return 0, 0, errors.New("stat is too short")
	}
	startTime, err = strconv.ParseUint(fields[startTimeField], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("start time: %w", err)
	}
	return fields[stateField][0], startTime, nil
}
