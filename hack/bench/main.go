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

// Command bench compares three contenders on the same servers: the bare limit (a
// plain client that does the same writes), DirectPropagation, and PropagationPolicy
// with Karmada's default limits and with raised limits.
//
//	make bench          # every case; writes docs/benchmarks/
//	make bench-short    # takes minutes; fails on ratios and counts, never on seconds
//	go run ./hack/bench -case a,f -rounds 3 -out /tmp/results
//	go run ./hack/bench -case a -against /tmp/controller-before   # measures the effect of a change
//
// The files:
//
//	ground.go      the fleet and the clients
//	agents.go      simulated agents for clusters without members
//	process.go     the controllers as processes, their CPU and memory
//	meter.go       requests and bytes, from the API server's own metrics
//	watcher.go     when each Work is written
//	load.go        what is propagated, and to which clusters
//	bare.go        the plain client
//	direct.go      DirectPropagation
//	policy.go      PropagationPolicy
//	race.go        contenders side by side: rounds, rotation, samples
//	cases.go, …    the cases
//	results.go     the results; table.go shows them
//	../tools/plot  the plots
//
// This program shares the machine with what it measures. It therefore watches only
// the metadata of Works, in the same way for every contender.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the values of the flags.
type options struct {
	cases   []string
	short   bool
	rounds  int
	out     string
	name    string
	keep    bool
	profile bool
	against string
	race    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(arguments []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	chosen := flags.String("case", "a,a1000,b,c,d,e,f,g,h", "cases to run; results of other cases in -out are kept")
	flags.BoolVar(&o.short, "short", false, "use small sizes and wide bounds, and check nothing that depends on the machine's speed")
	flags.IntVar(&o.rounds, "rounds", 0, "rounds of each race (default 5, short 2)")
	flags.StringVar(&o.out, "out", "", "folder for results.json and README.md (default: only print)")
	flags.StringVar(&o.name, "name", "bench", "name of the fleet to start and stop")
	flags.BoolVar(&o.keep, "keep", false, "leave the fleet running")
	flags.BoolVar(&o.profile, "profile", false, "write profiles next to the results: CPU of the controller and of the API server; the controller's heap, finer with GODEBUG=memprofilerate=4096")
	flags.StringVar(&o.against, "against", "", "program of another build of the controller, to compare with this one and the bare limit")
	flags.StringVar(&o.race, "race", "", "of cases a, a1000 and b, run only the races whose name contains this, for example: raised")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if o.out != "" && o.against+o.race != "" {
		return nil, errors.New("-out cannot be combined with -against or -race, because it is for whole cases of this build")
	}
	if o.rounds == 0 {
		o.rounds = 5
		if o.short {
			o.rounds = 2
		}
	}
	for name := range strings.SplitSeq(*chosen, ",") {
		if !slices.ContainsFunc(cases, func(c benchCase) bool { return c.name == name }) {
			return nil, fmt.Errorf("-case %q: the cases are a, a1000, and b to h", name)
		}
		o.cases = append(o.cases, name)
	}
	return o, nil
}

func run(ctx context.Context, arguments []string, out io.Writer) (err error) {
	klog.SetLogger(logr.Discard()) // conflicts of simulated agents are expected
	ctrl.SetLogger(logr.Discard())
	if len(arguments) > 0 && arguments[0] == agentsCommand {
		return playAgents(ctx, arguments[1:])
	}
	o, err := parse(arguments)
	if err != nil {
		return err
	}
	progress := &progress{out: out, started: time.Now()}
	g, err := newGround(ctx, o, progress)
	defer func() {
		if g != nil {
			err = errors.Join(err, g.close(context.WithoutCancel(ctx)))
		}
	}()
	if err != nil {
		return err
	}
	b := &bench{options: o, ground: g, progress: progress}
	b.results, err = newResults(ctx, o, g.root)
	if err != nil {
		return err
	}
	if err := b.runCases(ctx); err != nil {
		return err
	}
	fmt.Fprint(out, "\n"+b.results.markdown())
	return b.results.verdict()
}

// bench is one run.
type bench struct {
	*options
	*ground
	*progress
	results *results
	heats   int // number of heats so far; it makes names unique
	heaps   int // number of heap profiles so far
}

// runCases runs the selected cases and saves the results of every case, even if a
// later one fails.
func (b *bench) runCases(ctx context.Context) error {
	for _, c := range cases {
		if !slices.Contains(b.cases, c.name) {
			continue
		}
		b.say("case (%s): %s", c.name, c.what)
		b.results.begin(c.name, b.options)
		if err := c.run(ctx, b); err != nil {
			// The other cases are useful without this one.
			b.say("case (%s) failed: %v", c.name, err)
			b.results.check(check{Case: c.name, What: "the case runs to its end", Got: err.Error(), Want: "no error"})
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := b.results.save(b.options.out); err != nil {
			return err
		}
	}
	return nil
}

// progress prints what the benchmark is doing.
type progress struct {
	out     io.Writer
	started time.Time
}

func (p *progress) say(format string, arguments ...any) {
	fmt.Fprintf(p.out, "%7.1fs  %s\n", time.Since(p.started).Seconds(), fmt.Sprintf(format, arguments...))
}
