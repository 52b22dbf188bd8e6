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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

const kubeconfigText = `apiVersion: v1
kind: Config
clusters: [{name: k, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: k, user: {token: one}}]
contexts: [{name: k, context: {cluster: k, user: k}}]
current-context: k
`

// secretFolder is a Secret as the kubelet mounts it: the files are reached through
// a link that is replaced atomically.
type secretFolder struct {
	t   *testing.T
	dir string
}

func newSecretFolder(t *testing.T, content string) *secretFolder {
	t.Helper()
	folder := &secretFolder{t: t, dir: t.TempDir()}
	folder.shows("first", content)
	if err := os.Symlink(filepath.Join("..data", "kubeconfig"), folder.kubeconfig()); err != nil {
		t.Fatal(err)
	}
	return folder
}

func (f *secretFolder) kubeconfig() string { return filepath.Join(f.dir, "kubeconfig") }

// shows switches to a version of the Secret. A version without content has no file.
func (f *secretFolder) shows(version, content string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Join(f.dir, version), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if content != "" {
		if err := os.WriteFile(filepath.Join(f.dir, version, "kubeconfig"), []byte(content), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	next := filepath.Join(f.dir, "..next")
	if err := os.Symlink(version, next); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(f.dir, "..data")); err != nil {
		f.t.Fatal(err)
	}
}

func TestKubeconfigChanges(t *testing.T) {
	folder := newSecretFolder(t, kubeconfigText)
	options := defaultOptions()
	options.kubeconfig = folder.kubeconfig()
	watch := options.watchKubeconfig(logr.Discard())
	for _, step := range []struct {
		version, content string
		want             bool
	}{
		{"the same", kubeconfigText, false},
		{"gone", "", false},
		{"cut off", kubeconfigText[:40], false},
		{"no context", strings.Replace(kubeconfigText, "current-context: k", "current-context: other", 1), false},
		{"as it was", kubeconfigText, false},
		{"another token", strings.Replace(kubeconfigText, "one", "two", 1), true},
	} {
		folder.shows(step.version, step.content)
		if got := watch.changed(); got != step.want {
			t.Errorf("%s: changed() = %v, want %v", step.version, got, step.want)
		}
	}
}

func TestCAFileChanges(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ca, "one")
	options := defaultOptions()
	options.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	write(options.kubeconfig, strings.Replace(kubeconfigText, `1"`, `1", certificate-authority: `+ca, 1))
	watch := options.watchKubeconfig(logr.Discard())
	if watch.changed() {
		t.Error("changed although nothing was written")
	}
	write(ca, "two")
	if !watch.changed() {
		t.Error("a changed CA file went unseen")
	}
}

func TestContextEndsWhenTheKubeconfigChanges(t *testing.T) {
	folder := newSecretFolder(t, kubeconfigText)
	options := defaultOptions()
	options.kubeconfig = folder.kubeconfig()
	watch := options.watchKubeconfig(logr.Discard())
	watch.interval = time.Millisecond
	ctx, cancel := watch.untilChanged(t.Context())
	defer cancel()
	if err := ctx.Err(); err != nil {
		t.Fatalf("the context ended before anything changed: %v", err)
	}
	folder.shows("second", strings.Replace(kubeconfigText, "one", "two", 1))
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Error("the context did not end when the kubeconfig changed")
	}
}
