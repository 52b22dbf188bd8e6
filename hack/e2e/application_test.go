//go:build e2e && e2e_argocd

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
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karmada-direct/karmada-direct/hack/testbed"
)

// These tests run on their own fleet, which has Argo CD.
func init() {
	options.Fleet = "e2e-argocd"
	options.FleetFlags = []string{"--argocd"}
}

const (
	argoCDNamespace = "argocd"
	// patienceInTests replaces both limits in health.lua: the seconds after which
	// trouble makes an object Degraded. A rollout in these tests takes less time.
	patienceInTests = 20
)

var applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}

// hostCluster returns a client of the cluster that Argo CD runs in.
var hostCluster = sync.OnceValues(func() (client.WithWatch, error) {
	config, err := bed.ConfigOf("host")
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: testbed.Scheme})
})

// Application is an Application of Argo CD, with the Git repository that it deploys
// to a namespace of the Karmada API server, and every state of it that was observed.
type Application struct {
	ns     *Namespace
	host   client.WithWatch
	folder string // of the repository
	// commit is the current commit of the repository.
	commit string

	mu sync.Mutex
	// seen holds the observed states of each commit in order, without consecutive
	// duplicates.
	seen map[string][]applicationStatus
	// confirmed holds, for each commit, a function that returns an error unless the
	// members run that commit.
	confirmed map[string]func(context.Context) error
	lies      []error
}

// judgesByTheBook installs the health checks into Argo CD as the documentation
// describes.
func (ns *Namespace) judgesByTheBook() {
	ns.T.Helper()
	checks, err := os.ReadFile(filepath.Join("..", "..", "docs", "argocd", "argocd-cm.yaml"))
	if err != nil {
		ns.T.Fatal(err)
	}
	text := string(checks)
	for _, patience := range []string{"local patience_refused = 60\n", "local patience_unhealthy = 300\n"} {
		if !strings.Contains(text, patience) {
			ns.T.Fatalf("the health checks do not contain %q; how long do they wait now?", patience)
		}
		name, _, _ := strings.Cut(patience, "=")
		text = strings.ReplaceAll(text, patience, fmt.Sprintf("%s= %d\n", name, patienceInTests))
	}
	patch := filepath.Join(ns.T.TempDir(), "argocd-cm.yaml")
	if err := os.WriteFile(patch, []byte(text), 0o600); err != nil {
		ns.T.Fatal(err)
	}
	ns.kubectl("", "--kubeconfig", bed.Fleet.Kubeconfig("host"), "--namespace", argoCDNamespace, "patch", "configmap", "argocd-cm", "--patch-file", patch)
}

// newApplication creates a Git repository with a first commit, and an Application
// that follows it.
func (ns *Namespace) newApplication(files map[string]string, confirmed func(context.Context) error) *Application {
	ns.T.Helper()
	ns.judgesByTheBook()
	host, err := hostCluster()
	if err != nil {
		ns.T.Fatal(err)
	}
	a := &Application{
		ns: ns, host: host, folder: ns.T.TempDir(),
		seen: map[string][]applicationStatus{}, confirmed: map[string]func(context.Context) error{},
	}
	a.git("init", "--quiet", "--initial-branch=main")
	a.write(files, confirmed)
	object := a.object()
	object.SetFinalizers([]string{"resources-finalizer.argocd.argoproj.io"})
	object.Object["spec"] = map[string]any{
		"project":     "default",
		"source":      map[string]any{"repoURL": "file://" + a.folder, "targetRevision": "main", "path": "."},
		"destination": map[string]any{"name": "karmada", "namespace": ns.Name},
		"syncPolicy":  map[string]any{"automated": map[string]any{"prune": true, "selfHeal": true}},
	}
	if err := host.Create(ns.Ctx, object); err != nil {
		ns.T.Fatalf("creating the Application: %v", err)
	}
	a.follow()
	ns.T.Cleanup(a.leave)
	return a
}

func (a *Application) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(applicationKind)
	object.SetNamespace(argoCDNamespace)
	object.SetName(a.ns.Name)
	return object
}

// git runs git in the repository.
func (a *Application) git(arguments ...string) string {
	a.ns.T.Helper()
	command := exec.CommandContext(a.ns.Ctx, "git", append([]string{"-c", "user.name=e2e", "-c", "user.email=e2e@localhost"}, arguments...)...)
	command.Dir = a.folder
	printed, err := command.CombinedOutput()
	if err != nil {
		a.ns.T.Fatalf("git %s: %v\n%s", arguments[0], err, printed)
	}
	return strings.TrimSpace(string(printed))
}

// write commits files. A file without content is removed.
func (a *Application) write(files map[string]string, confirmed func(context.Context) error) {
	a.ns.T.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(a.folder, name)
		err := os.Remove(path)
		if files[name] != "" {
			err = os.WriteFile(path, []byte(files[name]), 0o600)
		}
		if err != nil {
			a.ns.T.Fatal(err)
		}
	}
	a.git("add", "--all")
	a.git("commit", "--quiet", "--allow-empty", "--message", "change "+strings.Join(slices.Sorted(maps.Keys(files)), ", "))
	a.commit = a.git("rev-parse", "HEAD")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.confirmed[a.commit] = confirmed
}

// ClaimsNothing disables the checks for the current commit. A test calls it before
// it edits objects that come from Git, because Argo CD notices the edit only a
// moment later.
func (a *Application) ClaimsNothing() {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.confirmed, a.commit)
}

// Commits commits files and notifies Argo CD, as a webhook of the Git server would.
func (a *Application) Commits(files map[string]string, confirmed func(context.Context) error) {
	a.ns.T.Helper()
	a.write(files, confirmed)
	a.looksAgain("normal")
}

// looksAgain makes Argo CD refresh the Application: "normal", or "hard" to ignore
// caches. Argo CD removes the annotation when it is done. A request that arrives
// while Argo CD handles the previous one can be lost, so it is repeated.
func (a *Application) looksAgain(how string) {
	a.ns.T.Helper()
	const annotation = "argocd.argoproj.io/refresh"
	ask := func(ctx context.Context, how any) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: how}}})
		if err != nil {
			return err
		}
		return a.host.Patch(ctx, a.object(), client.RawPatch(types.MergePatchType, patch))
	}
	if err := ask(a.ns.Ctx, how); err != nil {
		a.ns.T.Fatalf("refreshing the Application: %v", err)
	}
	asked := time.Now()
	a.ns.Eventually("Argo CD has refreshed the Application", func(ctx context.Context) error {
		object := a.object()
		if err := a.host.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if _, waiting := object.GetAnnotations()[annotation]; !waiting {
			return nil
		}
		if time.Since(asked) > 5*time.Second {
			asked = time.Now()
			return errors.Join(ask(ctx, nil), ask(ctx, how), errors.New("the request was repeated"))
		}
		return errors.New("the request is still pending")
	})
}

// follow records every state of the Application that the API server stores. Whenever
// a state says Healthy, the members must run what is in Git.
func (a *Application) follow() {
	a.ns.T.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(applicationKind.GroupVersion().WithKind("ApplicationList"))
	watching, err := a.host.Watch(context.WithoutCancel(a.ns.Ctx), list, client.InNamespace(argoCDNamespace), client.MatchingFields{"metadata.name": a.ns.Name})
	if err != nil {
		a.ns.T.Fatalf("watching the Application: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watching.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				a.sees(object)
			}
		}
	}()
	a.ns.T.Cleanup(func() {
		watching.Stop()
		<-ended
		if len(a.lies) > 0 {
			a.ns.T.Errorf("the Application was Healthy although the members had not confirmed: %v", errors.Join(a.lies...))
		}
	})
}

// leave deletes the Application and everything that it has deployed.
func (a *Application) leave() {
	a.ns.Ctx = context.Background() // the test's own context is done
	if a.ns.T.Failed() && bed.Keep() {
		return
	}
	if err := a.host.Delete(a.ns.Ctx, a.object()); err != nil {
		a.ns.T.Errorf("deleting the Application: %v", err)
		return
	}
	a.ns.Eventually("the Application and everything that it deployed are gone", func(ctx context.Context) error {
		object := a.object()
		err := a.host.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		status, _ := statusOf(object)
		return errors.Join(fmt.Errorf("it still exists: %v", status), err)
	})
}

// pause suspends a process of the fleet with SIGSTOP until the test ends or the
// returned function is called.
func pause(t *testing.T, name string) (resume func()) {
	t.Helper()
	for _, process := range bed.Fleet.State.Processes {
		if process.Name != name {
			continue
		}
		send := func(signal syscall.Signal) {
			if err := syscall.Kill(process.Identity.PID, signal); err != nil {
				t.Errorf("sending %v to %s: %v", signal, name, err)
			}
		}
		send(syscall.SIGSTOP)
		resume = sync.OnceFunc(func() { send(syscall.SIGCONT) })
		t.Cleanup(resume)
		return resume
	}
	t.Fatalf("the fleet has no process %s", name)
	return nil
}

// bearsNothingOfArgoCD checks that no object of the namespace on any member has a
// label or annotation by which another Argo CD would treat it as its own.
func (ns *Namespace) bearsNothingOfArgoCD(kinds ...client.ObjectList) {
	ns.T.Helper()
	for _, member := range members {
		count := 0
		for _, list := range kinds {
			if err := member.List(ns.Ctx, list, client.InNamespace(ns.Name)); err != nil {
				ns.T.Fatal(err)
			}
			for _, item := range testbed.ItemsOf(list) {
				if item.GetName() == "kube-root-ca.crt" {
					continue
				}
				count++
				for key := range maps.All(item.GetAnnotations()) {
					if strings.Contains(key, "argocd") || key == corev1.LastAppliedConfigAnnotation {
						ns.T.Errorf("%s: %s has annotation %s", member, testbed.Describe(item), key)
					}
				}
				for key := range maps.All(item.GetLabels()) {
					if strings.Contains(key, "argocd") || key == "app.kubernetes.io/instance" {
						ns.T.Errorf("%s: %s has label %s", member, testbed.Describe(item), key)
					}
				}
			}
		}
		if count == 0 {
			ns.T.Errorf("%s has no object to check", member)
		}
	}
}

// versionOf reads an object on the control plane and returns its resource version.
func (ns *Namespace) versionOf(object client.Object) string {
	ns.T.Helper()
	if err := karmada.Get(ns.Ctx, client.ObjectKey{Namespace: ns.Name, Name: object.GetName()}, object); err != nil {
		ns.T.Fatal(err)
	}
	return object.GetResourceVersion()
}

func named[T metav1.Object](object T, name string) T {
	object.SetName(name)
	return object
}
