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
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// When the Secret changes, the process exits cleanly, is restarted, and uses the new
// content of the Secret.
func TestKubeconfigIsRenewed(t *testing.T) {
	forgetInstallation(t)
	r := newRelease(t)
	first := adminByToken(t, r, "first")
	r.hasSecret("mine", "kubeconfig", first)
	r.installs(chartFolder(), "karmada.preset=custom", "karmada.kubeconfigSecret.name=mine", "rbac.leastPrivilege=false")
	running := r.startsOne()
	j := creates(t, "with the first")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "mine"}, Data: map[string][]byte{"kubeconfig": adminByToken(t, r, "second")}}
	if err := host.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	running.refresh("karmada")
	eventually(t, "the process was restarted", func(context.Context) error {
		if running.restarted() == 0 {
			return errors.New("it was not restarted")
		}
		return nil
	})
	if want := "The kubeconfig has changed; exiting"; !strings.Contains(running.printed(), want) {
		t.Errorf("it did not print %q:\n%s", want, running.printed())
	}
	// From now on, the first identity is worthless.
	gone := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.namespace + "-first"}}
	if err := karmada.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	j.changes("with the second")
	j.deletes()
	if count := running.restarted(); count != 1 {
		t.Errorf("it was restarted %d times, want 1", count)
	}
}

// adminByToken creates an identity with all permissions on the Karmada API server,
// and returns a kubeconfig for it.
func adminByToken(t *testing.T, r *release, word string) []byte {
	t.Helper()
	name := r.namespace + "-" + word
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	}
	for _, object := range []client.Object{account, binding} {
		if err := karmada.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = karmada.Delete(context.Background(), object) })
	}
	token := strings.TrimSpace(kubectl(t, "create", "token", name, "--namespace", namespace))
	config, err := clientcmd.BuildConfigFromFlags("", bed.Fleet.Kubeconfig("karmada"))
	if err != nil {
		t.Fatal(err)
	}
	return tokenKubeconfig(t, config, token)
}

func tokenKubeconfig(t *testing.T, config *rest.Config, token string) []byte {
	t.Helper()
	made := clientcmdapi.NewConfig()
	made.Clusters["karmada"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	made.AuthInfos["karmada"] = &clientcmdapi.AuthInfo{Token: token}
	made.Contexts["karmada"] = &clientcmdapi.Context{Cluster: "karmada", AuthInfo: "karmada"}
	made.CurrentContext = "karmada"
	content, err := clientcmd.Write(*made)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
