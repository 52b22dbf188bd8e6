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
	"sync"
	"time"
)

// progress prints what the program is doing: on a terminal as a line that is
// updated, otherwise as occasional lines.
type progress struct {
	out      io.Writer
	terminal bool
	started  time.Time

	mu   sync.Mutex
	note string // the changing part of the current line
}

func newProgress(out *os.File) *progress {
	info, err := out.Stat()
	return &progress{
		out:      out,
		terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
		started:  time.Now(),
	}
}

// silent returns a progress that prints nothing.
func (p *progress) silent() *progress {
	return &progress{out: io.Discard, started: p.started}
}

func (p *progress) println(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// step prints a finished step with the elapsed time.
func (p *progress) step(format string, args ...any) {
	p.println("  %5.1fs  %s", time.Since(p.started).Seconds(), fmt.Sprintf(format, args...))
}

// detail changes the text after the current line.
func (p *progress) detail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = ": " + fmt.Sprintf(format, args...)
}

// spin shows a long-running step with the elapsed time until the returned function
// is called.
func (p *progress) spin(format string, args ...any) (done func()) {
	what := fmt.Sprintf(format, args...)
	begin := time.Now()
	interval, end := 15*time.Second, "\n"
	if p.terminal {
		interval, end = time.Second, "\r"
	}
	p.mu.Lock()
	p.note = ""
	p.mu.Unlock()
	show := func(end string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		line := fmt.Sprintf("  %5s  %s%s", time.Since(begin).Round(time.Second), what, p.note)
		if p.terminal {
			line = fmt.Sprintf("%-78s", line) // spaces cover the rest of a longer line
		}
		fmt.Fprint(p.out, line, end)
	}
	show(end)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				show(end)
			case <-stop:
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		show("\n")
	}
}
