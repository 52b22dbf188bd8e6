//go:build integration

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
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
)

// The token of the kubeconfig is that of the ServiceAccount, whatever is in the
// place where earlier versions kept it. It expires, is renewed, and becomes invalid
// when its Secret is deleted.
func TestTokenIsOfTheAccountRotatesAndIsRevoked(t *testing.T) {
	kubeconfig, server := start(t)
	if _, err := call(t, "install-rbac", "--kubeconfig", kubeconfig); err != nil {
		t.Fatal(err)
	}
	planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-system", Name: legacyToken}, Data: map[string][]byte{"token": []byte("of somebody else")}}
	if err := server.Create(t.Context(), planted); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "written")
	printed, err := call(t, "write-kubeconfig", "--kubeconfig", kubeconfig, "--output", output, "--token-lifetime=1h")
	if err != nil {
		t.Fatal(err)
	}
	if want := "holds a token that never expires; delete it"; !strings.Contains(printed, want) {
		t.Errorf("it printed\n%swithout %q", printed, want)
	}
	first, err := readClaims(output + "-token")
	if err != nil {
		t.Fatal(err)
	}
	if life := first.Expires - first.Issued; first.Subject != controllerUser || life != 3600 || first.Bound.Secret == nil {
		t.Errorf("the token is that of %s for %d s, bound to %+v", first.Subject, life, first.Bound.Secret)
	}
	renewsByItself(t, output)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-system", Name: tokenAnchor}}
	if err := server.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	own := defaultOptions()
	own.kubeconfig = output
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		reader, err := own.connect()
		if err != nil {
			return false, err
		}
		return apierrors.IsUnauthorized(reader.List(ctx, &clusterv1alpha1.ClusterList{})), nil
	})
	if err != nil {
		t.Errorf("the token is still good for something: %v", err)
	}
}

// renewsByItself renews a token with only the permissions of the token.
func renewsByItself(t *testing.T, kubeconfig string) {
	t.Helper()
	own := defaultOptions()
	own.kubeconfig = kubeconfig
	config, err := own.restConfig()
	if err != nil {
		t.Fatal(err)
	}
	server, err := own.connect()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(kubeconfig + "-token")
	if err != nil {
		t.Fatal(err)
	}
	renewal := &tokenRenewal{file: config.BearerTokenFile, config: config, server: server, log: logr.Discard()}
	if err := renewal.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(kubeconfig + "-token")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(before, after) {
		t.Error("the token is the same as before")
	}
	if info, err := os.Stat(kubeconfig + "-token"); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file of the token is %v, %v", info.Mode(), err)
	}
	other := tokenOf{account: types.NamespacedName{Namespace: "karmada-system", Name: "other"}, lifetime: time.Hour}
	if _, err := requestToken(t.Context(), server, config, other); !apierrors.IsForbidden(err) {
		t.Errorf("a token for another account: %v, want Forbidden", err)
	}
}
