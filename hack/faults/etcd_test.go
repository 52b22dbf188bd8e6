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
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// etcd is killed again and again under traffic, each time in the middle of a write that
// reached the disk only in part. It drops this write and nothing else.
func TestTornWrite(t *testing.T) {
	ns := newNamespace(t)
	traffic := newTraffic(t, ns)
	for _, torn := range []struct {
		written int
		grows   bool
	}{{0, false}, {100, false}, {1000, false}, {3000, false}, {0, true}, {2000, true}} {
		traffic.endures(fmt.Sprintf("the last write is torn after %d bytes", torn.written), func() {
			fleetDoes(t, "stop", "--signal", "KILL", "etcd")
			log := readLog(t)
			log.tears(t, torn.written, torn.grows)
			starts(t, "etcd")
			traffic.check(log.isRepaired())
		})
	}
	traffic.isTrue()
	measured(t, "etcd killed in the middle of a write, under traffic", fmt.Sprintf("%d times, the slowest settled in %v", traffic.rounds, traffic.slowest.Round(time.Second)), "everything is as users want it")
}

// The power fails: all processes of Karmada and of the members end at once, and so does
// the controller. The last write is lost although it was answered. Resource versions are
// then used twice, so they do not tell what came before what.
func TestPowerFailure(t *testing.T) {
	ns := newNamespace(t)
	traffic := newTraffic(t, ns)
	planes := []string{"etcd", "karmada", "member1", "member2", "member3"}
	for range 2 {
		traffic.endures("the power failed", func() {
			bed.Controller.Kill()
			fleetDoes(t, append([]string{"stop", "--signal", "KILL"}, planes...)...)
			log := readLog(t)
			log.loses(t)
			startsInOrder(t, []string{"etcd", karmadaServer, aggregatedServer}, planes)
			traffic.check(errors.Join(log.isRepaired(), bed.Controller.Start()))
		})
	}
	measured(t, "all processes killed, and the last write lost, under traffic", fmt.Sprintf("%d times, the slowest settled in %v", traffic.rounds, traffic.slowest.Round(time.Second)), "everything is as users want it")
}

// etcd has no space left and refuses each write. Afterwards, it is compacted and
// defragmented.
func TestNoSpaceLeft(t *testing.T) {
	const noSpace, spare = 40 * time.Second, 8 << 20
	ns := newNamespace(t)
	traffic := newTraffic(t, ns)
	quota := etcdStatus(t).size + spare
	t.Cleanup(func() {
		fleetDoes(t, "stop", "etcd")
		starts(t, "etcd")
		allReady(t)
	})
	fleetDoes(t, "stop", "etcd")
	fleetDoes(t, "start", "etcd", fmt.Sprintf("--arg=--quota-backend-bytes=%d", quota))
	traffic.endures("etcd had no space left", func() {
		fillsEtcd(t)
		ns.Throughout(noSpace, "etcd refuses each write", func(ctx context.Context) error {
			err := testbed.Put(ctx, karmada, ns.configMap("refused"), testbed.Saying(time.Now().String()))
			if err == nil || !strings.Contains(err.Error(), "database space exceeded") {
				return fmt.Errorf("a write says: %w", err)
			}
			return nil
		})
		freesEtcd(t)
	})
	traffic.isTrue()
	measured(t, fmt.Sprintf("etcd without space for %v, under traffic", noSpace), fmt.Sprintf("settled in %v", traffic.slowest.Round(time.Second)), "everything is as users want it")
}

// The history that the Karmada API server needs in order to continue its watches is
// compacted, so all that watch it have to list again.
func TestWatchesExpire(t *testing.T) {
	const times = 3
	ns := newNamespace(t)
	traffic := newTraffic(t, ns)
	for range times {
		traffic.endures("the watches expired", func() {
			began := logSize(t, karmadaServer)
			frozen := freezes(t, karmadaServer)
			fleetDoes(t, "stop", "--signal", "KILL", "etcd")
			starts(t, "etcd")
			traffic.check(asksEtcd("kv/put", map[string]any{"key": encoded("/nobody"), "value": encoded("moves on")}, nil))
			compactsEtcd(t)
			frozen()
			ns.Eventually("the API server notices", func(context.Context) error {
				return logSays(t, karmadaServer, began, "required revision has been compacted")
			})
		})
	}
	traffic.isTrue()
	measured(t, "compaction of what the Karmada API server has not seen, under traffic", fmt.Sprintf("%d times, the slowest settled in %v", traffic.rounds, traffic.slowest.Round(time.Second)), "everything is as users want it")
}

// The history is compacted ten times a second while the API server, Karmada's controllers
// and the controller start and list everything.
func TestCompactionDuringLists(t *testing.T) {
	const times, pace = 3, 100 * time.Millisecond
	ns := newNamespace(t)
	traffic := newTraffic(t, ns)
	ctx, cancel := context.WithCancel(t.Context())
	compacted := make(chan int, 1)
	go func() {
		count := 0
		for ticker := time.NewTicker(pace); ctx.Err() == nil; <-ticker.C {
			if revision, err := etcdRevision(); err == nil && asksEtcd("kv/compaction", map[string]any{"revision": revision}, nil) == nil {
				count++
			}
		}
		compacted <- count
	}()
	for range times {
		traffic.endures("everything listed", func() {
			bed.Controller.Kill()
			fleetDoes(t, "stop", "--signal", "KILL", karmadaServer, karmadaControllers)
			starts(t, karmadaServer)
			traffic.check(bed.Controller.Start())
			startsInOrder(t, nil, []string{karmadaControllers})
		})
	}
	cancel()
	count := <-compacted
	if count < 10*times {
		t.Errorf("only %d compactions", count)
	}
	traffic.isTrue()
	measured(t, fmt.Sprintf("API server, Karmada's controllers and the controller start %d times, compactions meanwhile", times), strconv.Itoa(count), "everything is as users want it")
}

// endures perturbs the fleet in the middle of changes, lets users go on, and waits until
// everything is as they want it.
func (f *traffic) endures(what string, perturb func()) {
	f.t.Helper()
	f.rounds++
	f.wantsMore()
	f.check(f.goesOn())
	f.wantsMore()
	going := make(chan error, 1)
	go func() { going <- f.goesOnWithin(endurance) }()
	perturb()
	back := time.Now()
	f.check(<-going)
	allReady(f.t)
	f.settles("after " + what)
	f.slowest = max(f.slowest, time.Since(back))
	f.t.Logf("%s: everything is right %v later", what, time.Since(back).Round(time.Millisecond))
}

// endurance is how long users try to make a change.
const endurance = 5 * time.Minute

// process returns the PID of a process of the fleet, which is 0 if it does not run, and
// its log.
func process(t *testing.T, name string) (pid int, log string) {
	t.Helper()
	if err := bed.Fleet.Load(); err != nil {
		t.Fatal(err)
	}
	for _, p := range bed.Fleet.State.Processes {
		if p.Name != name {
			continue
		}
		if p.Identity != nil {
			pid = p.Identity.PID
		}
		return pid, p.Log
	}
	t.Fatalf("the fleet has no process %s", name)
	return 0, ""
}

// freezes stops a process in its tracks, until the returned function is called or the test
// ends.
func freezes(t *testing.T, name string) (thaw func()) {
	t.Helper()
	pid, _ := process(t, name)
	if pid == 0 {
		t.Fatalf("%s does not run", name)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) } // it may have ended
	t.Cleanup(thaw)
	return thaw
}

func logSize(t *testing.T, name string) int64 {
	t.Helper()
	_, log := process(t, name)
	info, err := os.Stat(log)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// logSays returns an error unless a process has logged words behind a place in its log.
func logSays(t *testing.T, name string, from int64, words string) error {
	t.Helper()
	_, log := process(t, name)
	content, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	if !bytes.Contains(content[from:], []byte(words)) {
		return fmt.Errorf("%s has not logged %q", name, words)
	}
	return nil
}

// etcdURL is the address of etcd's HTTP API.
func etcdURL() string {
	for _, p := range bed.Fleet.State.Processes {
		for _, arg := range p.Args {
			if url, is := strings.CutPrefix(arg, "--listen-client-urls="); is {
				return url + "/v3/"
			}
		}
	}
	return ""
}

// asksEtcd sends a request to etcd and decodes the answer.
func asksEtcd(path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	response, err := http.Post(etcdURL()+path, "application/json", bytes.NewReader(body)) //nolint:gosec,noctx // the fleet's own etcd; it answers or ends
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd says %s: %s", response.Status, content)
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(content, answer)
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// status is what etcd says about itself.
type status struct {
	size     int64
	member   string
	revision string
}

func readEtcdStatus() (status, error) {
	answer := struct {
		Header struct {
			Member   string `json:"member_id"`
			Revision string `json:"revision"`
		} `json:"header"`
		Size string `json:"dbSize"`
	}{}
	if err := asksEtcd("maintenance/status", struct{}{}, &answer); err != nil {
		return status{}, err
	}
	size, err := strconv.ParseInt(answer.Size, 10, 64)
	return status{size: size, member: answer.Header.Member, revision: answer.Header.Revision}, err
}

func etcdRevision() (string, error) {
	said, err := readEtcdStatus()
	return said.revision, err
}

func etcdStatus(t *testing.T) status {
	t.Helper()
	said, err := readEtcdStatus()
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// fillsEtcd writes until etcd has no space left.
func fillsEtcd(t *testing.T) {
	t.Helper()
	const most = 100
	value := encoded(strings.Repeat("x", 1<<20))
	for i := range most {
		err := asksEtcd("kv/put", map[string]any{"key": encoded(fmt.Sprintf("/fill/%d", i)), "value": value}, nil)
		if err != nil && strings.Contains(err.Error(), "database space exceeded") {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%d MiB do not fill etcd", most)
}

// freesEtcd removes what fillsEtcd has written, as an administrator does.
func freesEtcd(t *testing.T) {
	t.Helper()
	if err := asksEtcd("kv/deleterange", map[string]any{"key": encoded("/fill/"), "range_end": encoded("/fill0")}, nil); err != nil {
		t.Fatal(err)
	}
	compactsEtcd(t)
	if err := errors.Join(
		asksEtcd("maintenance/defragment", struct{}{}, nil),
		asksEtcd("maintenance/alarm", map[string]any{"action": "DEACTIVATE", "memberID": etcdStatus(t).member, "alarm": "NOSPACE"}, nil),
	); err != nil {
		t.Fatal(err)
	}
}

// compactsEtcd drops the whole history.
func compactsEtcd(t *testing.T) {
	t.Helper()
	if err := asksEtcd("kv/compaction", map[string]any{"revision": etcdStatus(t).revision, "physical": true}, nil); err != nil {
		t.Fatal(err)
	}
}
