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
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	propagationv1alpha1 "github.com/karmada-direct/karmada-direct/apis/propagation/v1alpha1"
	"github.com/karmada-direct/karmada-direct/controllers/render"
	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

const mebibyte = 1 << 20

// renderTarget returns the target of a Work for a cluster.
func renderTarget(cluster string) render.Target { return render.Target{Cluster: cluster} }

// heapMiB returns the size of our controller's heap after a garbage collection. With
// -profile, it also writes a heap profile next to the results.
func (b *bench) heapMiB(ctx context.Context) (float64, error) {
	profile := io.Discard
	if b.profile {
		b.heaps++
		file, err := os.Create(filepath.Join(b.options.out, fmt.Sprintf("heap-%d.pprof", b.heaps)))
		if err != nil {
			return 0, fmt.Errorf("creating the file of a profile: %w", err)
		}
		defer file.Close()
		profile = file
	}
	// Requesting a heap profile in this way collects garbage first.
	if err := download(ctx, http.DefaultClient, "http://"+b.profiles+"/debug/pprof/heap?gc=1", profile); err != nil {
		return 0, err
	}
	const name = "go_memstats_heap_alloc_bytes"
	families, err := scrape(ctx, http.DefaultClient, "http://"+b.metrics+"/metrics", name)
	if err != nil {
		return 0, err
	}
	for _, metric := range families[name].GetMetric() {
		return metric.GetGauge().GetValue() / mebibyte, nil
	}
	return 0, errors.New("the controller does not report the size of its heap")
}

// freshHeap returns the heap size of a controller that has just started.
func (b *bench) freshHeap(ctx context.Context) (float64, error) {
	if err := b.setDirect(ctx, ""); err != nil {
		return 0, err
	}
	if err := b.setDirect(ctx, b.controllerProgram()); err != nil {
		return 0, err
	}
	return b.heapMiB(ctx)
}

// idle waits until a controller has reconciled all objects and has nothing left to
// do, and returns the time that this took.
func (b *bench) idle(ctx context.Context, metrics string, objects int, since time.Time) (time.Duration, error) {
	last, idleSince := -1.0, time.Now()
	const still = 2 * time.Second
	err := wait.PollUntilContextTimeout(ctx, testbed.Glance, longPatience, true, func(ctx context.Context) (bool, error) {
		families, err := scrape(ctx, http.DefaultClient, "http://"+metrics+"/metrics",
			"controller_runtime_reconcile_total", "workqueue_depth", "workqueue_unfinished_work_seconds")
		if err != nil {
			return false, err
		}
		looked, waiting := 0.0, 0.0
		for _, metric := range families["controller_runtime_reconcile_total"].GetMetric() {
			looked += metric.GetCounter().GetValue()
		}
		for _, name := range []string{"workqueue_depth", "workqueue_unfinished_work_seconds"} {
			for _, metric := range families[name].GetMetric() {
				waiting += metric.GetGauge().GetValue()
			}
		}
		if looked != last || waiting > 0 {
			last, idleSince = looked, time.Now()
		}
		return looked >= float64(objects) && time.Since(idleSince) >= still, nil
	})
	if err != nil {
		return 0, fmt.Errorf("waiting until the controller is idle: %w", err)
	}
	return idleSince.Sub(since), nil
}

// restarts is case (c).
func restarts(ctx context.Context, b *bench) error {
	const clusters = 4
	objects := 5000
	if b.short {
		objects = 200
	}
	l, err := b.playedLoad(ctx, objects, clusters)
	if err != nil {
		return err
	}
	empty, err := b.freshHeap(ctx)
	if err != nil {
		return err
	}
	b.say("  propagating %d objects × %d clusters", objects, clusters)
	began := time.Now()
	if err := b.place(ctx, l); err != nil {
		return err
	}
	name := fmt.Sprintf("%d × %d", objects, clusters)
	b.results.figure("c", name+": from the first object to all confirmed and quiet", time.Since(began).Seconds(), "s")
	if err := b.restart(ctx, l, name+", restart", b.controllerProgram(), empty); err != nil {
		return err
	}
	next := b.controllerProgram() + "-next"
	if err := b.build(ctx, "bench-next", next); err != nil {
		return err
	}
	if err := b.restart(ctx, l, name+", upgrade", next, empty); err != nil {
		return err
	}
	if err := b.grows(ctx, l, name); err != nil {
		return err
	}
	if err := b.changeLeader(ctx, l, name+", change of leader"); err != nil {
		return err
	}
	if b.short {
		if err := b.setDirect(ctx, b.controllerProgram()); err != nil {
			return err
		}
		return b.withdraw(ctx, l)
	}
	return nil // the fleet is deleted anyway
}

// restart replaces the controller with another program and checks that it writes
// nothing.
func (b *bench) restart(ctx context.Context, l *load, name, program string, empty float64) error {
	if err := b.setDirect(ctx, ""); err != nil {
		return err
	}
	if err := b.quiet(ctx, time.Second); err != nil {
		return err
	}
	before, err := b.writes(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.startDirect(ctx, program); err != nil {
		return err
	}
	took, err := b.idle(ctx, b.metrics, l.objects, began)
	if err != nil {
		return err
	}
	cpu := cpuSeconds(b.direct.PID())
	if err := b.wroteNothing(ctx, name, before); err != nil {
		return err
	}
	own, err := ownWrites(ctx, b.metrics)
	if err != nil {
		return err
	}
	b.results.check(check{Case: "c", What: name + ": writes, as the controller counts them", Got: fmt.Sprint(own), Want: "= 0", Holds: own == 0})
	heap, err := b.heapMiB(ctx)
	if err != nil {
		return err
	}
	b.results.figure("c", name+": until quiet", took.Seconds(), "s")
	b.results.figure("c", name+": CPU", cpu, "s")
	b.results.figure("c", name+": peak of memory", memoryMiB(b.direct.PID(), "VmHWM"), "MiB")
	b.results.figure("c", name+": heap in use, and without any object", heap, fmt.Sprintf("MiB, and %.1f MiB", empty))
	what, each := name+": KiB of heap a Work, its objects and resources included", (heap-empty)*1024/float64(l.works())
	if b.short { // with few Works, most of the heap is a fixed cost
		b.results.figure("c", what, each, "")
	} else {
		b.results.atMost("c", what, each, 4)
	}
	return nil
}

// wroteNothing checks that nothing was written since before.
func (b *bench) wroteNothing(ctx context.Context, name string, before traffic) error {
	after, err := b.writes(ctx)
	if err != nil {
		return err
	}
	written := after.minus(before)
	total := written.sum(func(string) bool { return true })
	b.say("  %s: written %v", name, written)
	b.results.check(check{Case: "c", What: name + ": writes, as the API server counts them, leases aside", Got: fmt.Sprint(total), Want: "= 0", Holds: total == 0})
	return nil
}

// grows changes some of the objects repeatedly and compares the heap sizes.
func (b *bench) grows(ctx context.Context, l *load, name string) error {
	const rounds, share = 5, 20
	some := &load{content: configMaps, namespace: l.namespace, name: l.name, objects: l.objects / share, clusters: l.clusters}
	heaps := make([]float64, 0, rounds)
	for round := range rounds {
		b.watcher.forgetObjects()
		f := b.watcher.await(some.keys(), some.objects, b.crossed(some, phaseUpdate))
		if err := some.setRevision(ctx, b.client, round+2, func(int) {}); err != nil {
			return err
		}
		if _, err := b.watcher.wait(ctx, f); err != nil {
			return err
		}
		if err := b.well(ctx, some); err != nil {
			return err
		}
		heap, err := b.heapMiB(ctx)
		if err != nil {
			return err
		}
		heaps = append(heaps, heap)
	}
	b.results.atMost("c", fmt.Sprintf("%s, %d objects changed %d times: heap at the end : after the first time", name, some.objects, rounds), heaps[rounds-1]/heaps[0], 1.1)
	return nil
}

// changeLeader makes one of two replicas hand over to the other.
func (b *bench) changeLeader(ctx context.Context, l *load, name string) error {
	if err := b.setDirect(ctx, ""); err != nil {
		return err
	}
	first, metrics, _, err := b.newDirect(ctx, b.controllerProgram())
	if err != nil {
		return err
	}
	defer first.end()
	if err := first.start(ctx); err != nil {
		return err
	}
	if _, err := b.idle(ctx, metrics, l.objects, time.Now()); err != nil {
		return err
	}
	second, metrics, _, err := b.newDirect(ctx, b.controllerProgram())
	if err != nil {
		return err
	}
	defer second.end()
	if err := second.start(ctx); err != nil {
		return err
	}
	if err := b.quiet(ctx, 2*time.Second); err != nil {
		return err
	}
	before, err := b.writes(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	first.end()
	took, err := b.idle(ctx, metrics, l.objects, began)
	if err != nil {
		return err
	}
	b.results.figure("c", name+": from the end of one to the other being quiet", took.Seconds(), "s")
	return b.wroteNothing(ctx, name, before)
}

// manySecrets is case (e).
func manySecrets(ctx context.Context, b *bench) error {
	const propagated, size = 10, 100 << 10
	secrets := 1000
	if b.short {
		secrets = 200
	}
	if err := b.setKarmada(ctx, limitsRaised); err != nil {
		return err
	}
	empty, err := b.freshHeap(ctx)
	if err != nil {
		return err
	}
	before := b.memories("VmRSS")
	if err := parallel(secrets, workers, func(i int) error { return b.client.Create(ctx, secret(i, size)) }); err != nil {
		return fmt.Errorf("creating Secrets: %w", err)
	}
	objects, err := b.propagateSecrets(ctx, propagated)
	if err != nil {
		return err
	}
	heap, err := b.heapMiB(ctx)
	if err != nil {
		return err
	}
	after := b.memories("VmHWM")
	name := fmt.Sprintf("%d Secrets of 100 KiB, %d propagated", secrets, propagated)
	b.results.atMost("e", name+": MiB that the controller's heap grows", heap-empty, 8)
	for _, process := range []string{controllerManager, karmadaManager} {
		b.results.figure("e", name+": "+process+", memory before, and its peak", before[process], fmt.Sprintf("MiB, and %.1f MiB", after[process]))
	}
	for _, object := range objects {
		if err := b.client.Delete(ctx, object); err != nil {
			return fmt.Errorf("deleting: %w", err)
		}
	}
	if err := b.client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(realSpace), client.HasLabels{loadLabel}); err != nil {
		return fmt.Errorf("deleting Secrets: %w", err)
	}
	return b.quiet(ctx, 3*time.Second) // Karmada must still be running for that
}

// propagateSecrets propagates the first Secrets and waits until nothing is written.
func (b *bench) propagateSecrets(ctx context.Context, count int) ([]*propagationv1alpha1.DirectPropagation, error) {
	b.watcher.forgetObjects()
	objects := make([]*propagationv1alpha1.DirectPropagation, count)
	for i := range objects {
		objects[i] = propagationOf(secret(i, 0), "member1", "member2")
		if err := b.client.Create(ctx, objects[i]); err != nil {
			return nil, fmt.Errorf("propagating Secrets: %w", err)
		}
	}
	for _, object := range objects {
		err := until(ctx, "the Secrets are confirmed", func(context.Context) (bool, error) {
			return b.watcher.object(client.ObjectKeyFromObject(object)).ready, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return objects, b.quiet(ctx, 3*time.Second)
}

func (b *bench) memories(field string) map[string]float64 {
	memories := map[string]float64{}
	for name, pid := range b.pids() {
		memories[name] = memoryMiB(pid, field)
	}
	return memories
}

func secret(i, size int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: realSpace, Name: fmt.Sprintf("secret-%04d", i), Labels: map[string]string{loadLabel: "secrets"}},
		Data:       map[string][]byte{"content": make([]byte, size)},
	}
}

func propagationOf(secret *corev1.Secret, clusters ...string) *propagationv1alpha1.DirectPropagation {
	object := &propagationv1alpha1.DirectPropagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name},
		Spec:       propagationv1alpha1.PropagationSpec{Resource: propagationv1alpha1.ResourceReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name}},
	}
	for _, cluster := range clusters {
		object.Spec.Clusters = append(object.Spec.Clusters, propagationv1alpha1.TargetCluster{Name: cluster})
	}
	return object
}
