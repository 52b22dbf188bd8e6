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

package testbed

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime/pprof"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main is the TestMain of a package that tests on a fleet. It sets up what the
// options request, calls begin, runs the tests, and takes everything down, even if
// it is interrupted or -timeout is near. Finally, it exits the process.
func Main(m *testing.M, options Options, begin func(*Bed) error) {
	flag.Parse()
	if options.Parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(options.Parallel)); err != nil {
			panic(err)
		}
	}
	ctrl.SetLogger(logr.Discard()) // clients return the errors that they log
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runTests(ctx, m, newBed(options, os.Stdout), begin)
	stop()
	os.Exit(code)
}

// runTests runs the tests on a bed and takes it down in every case.
func runTests(ctx context.Context, m *testing.M, bed *Bed, begin func(*Bed) error) (code int) {
	began := time.Now()
	defer func() {
		if err := bed.down(); err != nil {
			bed.say("taking down: %v", err)
			code = max(code, 1)
		}
		bed.say("finished after %v", time.Since(began).Round(time.Second))
	}()
	err := bed.up(ctx)
	if err == nil {
		err = begin(bed)
	}
	if err != nil {
		bed.say("%v", err)
		return 1
	}
	bed.say("ready after %v", time.Since(began).Round(time.Second))
	result := make(chan int, 1)
	go func() { result <- m.Run() }()
	select {
	case code = <-result:
		bed.failed.tell(bed)
	case <-ctx.Done():
		bed.say("interrupted")
		return 130
	case <-almostTimedOut(began):
		bed.say("-timeout is near")
		_ = pprof.Lookup("goroutine").WriteTo(bed.out, 1)
		return 1
	}
	if bed.Options.Finish != nil {
		if err := bed.Options.Finish(); err != nil {
			bed.say("%v", err)
			return 1
		}
	}
	return code
}

// almostTimedOut fires early enough before -timeout to take the fleet down, because
// go test kills the process without cleaning up. The setup time counts towards the
// timeout.
func almostTimedOut(began time.Time) <-chan time.Time {
	limit, _ := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if limit == 0 {
		return nil
	}
	return time.After(time.Until(began.Add(limit - min(limit/2, time.Minute))))
}

// Seeded returns reproducible random numbers. The seed is <Env>_SEED or, by default,
// the time. It is logged.
func (b *Bed) Seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(b.env("SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	t.Logf("using random numbers of %s_SEED=%d", b.Options.Env, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// say prints a line about the run.
func (b *Bed) say(format string, arguments ...any) {
	fmt.Fprintf(b.out, b.Options.Name+": "+format+"\n", arguments...)
}

// failures lists the tests that failed. Their output is long, so the last lines of a
// run repeat their names.
type failures struct {
	mu    sync.Mutex
	names []string
}

// note records a test if it has failed.
func (f *failures) note(t *testing.T) {
	if !t.Failed() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, t.Name())
}

func (f *failures) tell(bed *Bed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names {
		bed.say("failed: %s; search this output for \"--- FAIL: %s\"", name, name)
	}
}
