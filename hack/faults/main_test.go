//go:build faults

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

package faults

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // what clients log is in what they return
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runTests(ctx, m)
	stop()
	os.Exit(code)
}

// runTests runs the tests on a fleet, and takes it down whatever happens.
func runTests(ctx context.Context, m *testing.M) (code int) {
	began := time.Now()
	defer func() {
		if err := takeDown(os.Stdout); err != nil {
			fmt.Println("faults: taking down:", err)
			code = max(code, 1)
		}
		fmt.Printf("faults: over after %v\n", time.Since(began).Round(time.Second))
	}()
	if err := bringUp(ctx, os.Stdout); err != nil {
		fmt.Println("faults:", err)
		return 1
	}
	fmt.Printf("faults: ready after %v\n", time.Since(began).Round(time.Second))
	result := make(chan int, 1)
	go func() { result <- m.Run() }()
	select {
	case code = <-result:
		failed.tell(os.Stdout)
	case <-ctx.Done():
		fmt.Println("faults: interrupted")
		return 130
	case <-almostTimedOut():
		fmt.Println("faults: -timeout is near")
		return 1
	}
	if err := figures.write(); err != nil {
		fmt.Println("faults:", err)
		return 1
	}
	return code
}

// failed are the tests that failed: what they print is long, and the last lines
// of a run are what is read first.
var failed failures

type failures struct {
	mu    sync.Mutex
	names []string
}

// note takes down a test, if it has failed.
func (f *failures) note(t *testing.T) {
	if !t.Failed() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, t.Name())
}

func (f *failures) tell(out io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names {
		fmt.Fprintf(out, "faults: failed: %s; search this output for \"--- FAIL: %s\"\n", name, name)
	}
}

// almostTimedOut comes early enough before -timeout to take the fleet down:
// that timeout ends the process where it stands.
func almostTimedOut() <-chan time.Time {
	limit, _ := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if limit == 0 {
		return nil
	}
	return time.After(limit - min(limit/2, time.Minute))
}
