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
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// printer writes for people: numbered steps, and what happens in each.
type printer struct {
	out      io.Writer
	terminal bool
	began    time.Time

	steps, step int
	stepBegan   time.Time
	// marked is the time from which since counts.
	marked time.Time
}

func newPrinter(out *os.File) *printer {
	info, err := out.Stat()
	now := time.Now()
	return &printer{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, began: now, stepBegan: now}
}

// begin begins a step: what is done, and why.
func (p *printer) begin(title, why string) {
	p.step++
	p.stepBegan = time.Now()
	fmt.Fprintf(p.out, "\n[%d/%d] %s\n      %s\n", p.step, p.steps, title, why)
}

// end ends a successful step.
func (p *printer) end() {
	p.line("done in %s", seconds(time.Since(p.stepBegan)))
}

// line writes lines of a step.
func (p *printer) line(format string, arguments ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, arguments...)) {
		fmt.Fprintf(p.out, "      %s\n", strings.TrimRight(line, "\n"))
	}
}

// passing writes a line that the next one replaces. If the output is not a terminal,
// it writes nothing.
func (p *printer) passing(line string) {
	if p.terminal {
		fmt.Fprintf(p.out, "\r      %-70.70s\r", line)
	}
}

// mark sets the time from which since counts.
func (p *printer) mark() { p.marked = time.Now() }

// since returns the time since the mark, formatted as a column.
func (p *printer) since() string {
	return fmt.Sprintf("%7s", seconds(time.Since(p.marked)))
}

func seconds(duration time.Duration) string {
	return fmt.Sprintf("%.1fs", duration.Seconds())
}
