//go:build e2e_helm

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

package helm

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A release is upgraded from the previous chart, rolled back and removed. Members
// keep what they have throughout, no Works are written, and the CRDs stay.
func TestUpgradeRollbackUninstall(t *testing.T) {
	previous, version := previousChart(t)
	forgetInstallation(t)
	r := newRelease(t)
	r.hasSecret("karmada-controller-manager-config", "karmada.config", adminKubeconfig(t))
	t.Logf("upgrading from chart %s", version)
	r.installs(previous)
	old := r.startsOne()
	j := creates(t, "before")
	works := j.works()
	before := installedBy(t)

	r.helm(slices.Concat([]string{"upgrade", r.name, chartFolder(), "--wait", "--timeout", "2m"}, onLoopback(t))...)
	upgraded := r.startsOne() // a new Pod is ready before an old one is deleted
	old.stops()
	if a, b := old.pod.Spec.Containers[0].Image, upgraded.pod.Spec.Containers[0].Image; a == b {
		t.Errorf("the image is %s before and after", a)
	}
	now := installedBy(t)
	if now == before {
		t.Errorf("the CRD is still the one of %s", before)
	}
	holds(t, upgraded)
	if got := j.works(); !maps.Equal(got, works) {
		t.Errorf("the upgrade wrote Works: %v, then %v", works, got)
	}
	j.changes("after the upgrade")

	back := rollsBack(t, r, j, old, upgraded, now)
	works = j.works()

	r.helm("uninstall", r.name, "--wait", "--timeout", "2m")
	back.stops()
	remains(t, r, j, works)
}

// rollsBack rolls a release back to its first revision. The CRD stays, and no Works
// are written.
func rollsBack(t *testing.T, r *release, j *traveler, old, upgraded *runningPod, now string) *runningPod {
	t.Helper()
	works := j.works()
	r.helm("rollback", r.name, "1", "--wait", "--timeout", "2m")
	back := r.startsOne()
	upgraded.stops()
	if a, b := old.pod.Spec.Containers[0].Image, back.pod.Spec.Containers[0].Image; a != b {
		t.Errorf("after the rollback, the image is %s, want %s", b, a)
	}
	if got := installedBy(t); got != now {
		t.Errorf("after the rollback, the CRD is the one of %s, which may lack stored fields", got)
	}
	holds(t, back)
	if got := j.works(); !maps.Equal(got, works) {
		t.Errorf("the rollback wrote Works: %v, then %v", works, got)
	}
	j.changes("after the rollback")
	return back
}

// installedBy returns the version that has installed the CRD.
func installedBy(t *testing.T) string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := karmada.Get(t.Context(), client.ObjectKey{Name: crdName}, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Annotations["propagation.karmada-direct.io/installed-by"]
}

// holds waits until a Pod is the leader.
func holds(t *testing.T, running *runningPod) {
	t.Helper()
	eventually(t, "Pod "+running.pod.Name+" is the leader", func(ctx context.Context) error {
		text, err := metrics(ctx, running)
		if err != nil {
			return err
		}
		if !strings.Contains(text, `leader_election_master_status{name="karmada-direct"} 1`) {
			return errors.New("it waits for the lease")
		}
		return nil
	})
}

func metrics(ctx context.Context, running *runningPod) (string, error) {
	response, err := running.get(ctx, "metrics", "/metrics")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// remains checks what uninstalling leaves: everything on the Karmada API server, and
// nothing in the host cluster.
func remains(t *testing.T, r *release, j *traveler, works map[string]int64) {
	t.Helper()
	installedBy(t)
	if got := j.works(); !maps.Equal(got, works) {
		t.Errorf("the Works were %v and are now %v", works, got)
	}
	if err := j.told(t.Context(), "after the rollback"); err != nil {
		t.Errorf("the members have not kept what they had: %v", err)
	}
	if err := karmada.Get(t.Context(), client.ObjectKeyFromObject(j.propagation()), j.propagation()); err != nil {
		t.Errorf("the DirectPropagation is gone: %v", err)
	}
	left, err := r.run("kubectl", "get", "all,serviceaccounts,configmaps,poddisruptionbudgets", "--selector", "app.kubernetes.io/instance="+r.name, "--output", "name")
	if err != nil || strings.TrimSpace(strings.ReplaceAll(left, "No resources found", "")) != "" && !strings.HasPrefix(left, "No resources found") {
		t.Errorf("left in the host cluster: %s, %v", left, err)
	}
	// Another installation continues where this one stopped.
	r.installs(chartFolder())
	r.startsOne()
	j.changes("again")
	j.deletes()
}
