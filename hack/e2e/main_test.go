//go:build e2e

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

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/go-logr/logr"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests wait most of the time: more of them than there are cores go at once.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	ctrl.SetLogger(logr.Discard()) // what clients log is in what they return
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := runTests(ctx, m)
	stop()
	os.Exit(code)
}

// runTests runs the tests on a fleet, and takes it down whatever happens.
func runTests(ctx context.Context, m *testing.M) (code int) {
	started := time.Now()
	defer func() {
		if err := takeDown(os.Stdout); err != nil {
			fmt.Println("e2e: taking down:", err)
			code = max(code, 1)
		}
		fmt.Printf("e2e: over after %v\n", time.Since(started).Round(time.Second))
	}()
	if err := bringUp(ctx, os.Stdout); err != nil {
		fmt.Println("e2e:", err)
		return 1
	}
	fmt.Printf("e2e: ready after %v\n", time.Since(started).Round(time.Second))
	result := make(chan int, 1)
	go func() { result <- m.Run() }()
	select {
	case code = <-result:
		failed.tell(os.Stdout)
		return code
	case <-ctx.Done():
		fmt.Println("e2e: interrupted")
		return 130
	case <-almostTimedOut(started):
		fmt.Println("e2e: -timeout is near")
		_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
		return 1
	}
}

// almostTimedOut tells early enough before -timeout to take the fleet down: go
// test ends the process where it stands. What came before the tests counts.
func almostTimedOut(started time.Time) <-chan time.Time {
	limit, _ := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if limit == 0 {
		return nil
	}
	return time.After(time.Until(started.Add(limit - min(limit/2, time.Minute))))
}
