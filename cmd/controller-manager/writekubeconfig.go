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
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// tokenAnchor is the Secret on the Karmada API server that all tokens of the
	// controller are bound to. They become invalid when it is deleted.
	tokenAnchor = "karmada-direct-credentials"
	// legacyToken is the Secret in which earlier versions stored a token that never
	// expires.
	legacyToken = "karmada-direct-token" //nolint:gosec // the name of a Secret, not a secret
	// tokenLifetime is longer than most outages of an API server: a token that
	// has expired cannot renew itself.
	tokenLifetime = 24 * time.Hour
)

// kubeconfigOutput are the flags of write-kubeconfig.
type kubeconfigOutput struct {
	path     string
	lifetime time.Duration
	timeout  time.Duration
}

func newWriteKubeconfigCommand(options *options) *cobra.Command {
	output := kubeconfigOutput{lifetime: tokenLifetime, timeout: time.Minute}
	command := &cobra.Command{
		Use:   "write-kubeconfig",
		Short: "Write a kubeconfig with only the permissions that the controller needs",
		Long: `Writes a kubeconfig for the ServiceAccount that "install-rbac" creates, with the
address and the CA of the kubeconfig that this command uses. Next to it, in a file
with "-token" added to its name, it writes a token that expires after
--token-lifetime. With --renew-token, the controller renews the token there.

Tokens are bound to the Secret karmada-direct-credentials on the Karmada API
server, which this command creates if it does not exist. Delete that Secret to
revoke all permissions of the controller until this command runs again.`,
		Example: `  controller-manager write-kubeconfig --kubeconfig admin.kubeconfig --output controller.kubeconfig
  controller-manager --kubeconfig controller.kubeconfig --renew-token`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output.path == "" {
				return errors.New("--output: must be the path of the kubeconfig to write")
			}
			return options.writeKubeconfig(command.Context(), output, command.OutOrStdout())
		},
	}
	command.Flags().StringVar(&output.path, "output", "", "Path of the kubeconfig to write.")
	command.Flags().DurationVar(&output.lifetime, "token-lifetime", output.lifetime,
		"Lifetime of a token, at least 10m. It is renewed after a quarter of its lifetime, so that it survives an outage of three quarters.")
	addNamespaceFlag(command, options)
	command.Flags().DurationVar(&output.timeout, "timeout", output.timeout, "How long to wait for the token.")
	return command
}

// writeKubeconfig writes a kubeconfig for the controller's ServiceAccount, and
// its token.
func (o *options) writeKubeconfig(ctx context.Context, output kubeconfigOutput, out io.Writer) error {
	config, err := o.restConfig()
	if err != nil {
		return err
	}
	server, err := o.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, output.timeout)
	defer cancel()
	owner := types.NamespacedName{Namespace: o.leaseNamespace, Name: account}
	anchor, err := anchorOf(ctx, server, owner.Namespace)
	if err != nil {
		return err
	}
	token, err := requestToken(ctx, server, config, tokenOf{account: owner, anchor: anchor, lifetime: output.lifetime})
	if err != nil {
		return err
	}
	// Write the token first, so that the kubeconfig never exists without it.
	if err := replaceFile(output.path+"-token", []byte(token)); err != nil {
		return fmt.Errorf("writing the token: %w", err)
	}
	content, err := kubeconfigFor(config, filepath.Base(output.path)+"-token")
	if err != nil {
		return err
	}
	if err := replaceFile(output.path, content); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	fmt.Fprintf(out, "%s written for %s at %s\n", output.path, accountUser(owner.Namespace), config.Host)
	return warnOfLegacyToken(ctx, server, owner.Namespace, out)
}

// anchorOf returns the Secret that tokens are bound to, and creates it if it does
// not exist.
func anchorOf(ctx context.Context, server client.Client, namespace string) (*authenticationv1.BoundObjectReference, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: tokenAnchor,
		Annotations: map[string]string{"kubernetes.io/description": "The tokens of Karmada Direct are bound to this Secret. Delete it to revoke them."},
	}}
	err := server.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) { // two replicas may start at once
		err = server.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	if err != nil {
		return nil, fmt.Errorf("creating Secret %s/%s on the Karmada API server: %w", namespace, tokenAnchor, err)
	}
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID}, nil
}

func warnOfLegacyToken(ctx context.Context, server client.Client, namespace string, out io.Writer) error {
	err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: legacyToken}, &corev1.Secret{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for a token of an earlier version: %w", err)
	}
	fmt.Fprintf(out, "Secret %s/%s of an earlier version holds a token that never expires; delete it once no controller of that version runs\n", namespace, legacyToken)
	return nil
}

// kubeconfigFor returns a kubeconfig that differs from a given one only in its
// user.
func kubeconfigFor(admin *rest.Config, tokenFile string) ([]byte, error) {
	config := rest.AnonymousClientConfig(admin)
	if err := rest.LoadTLSFiles(config); err != nil { // the files may not be where the kubeconfig goes
		return nil, fmt.Errorf("reading the CA of the Karmada API server: %w", err)
	}
	written := clientcmdapi.NewConfig()
	written.Clusters[account] = &clientcmdapi.Cluster{
		Server: admin.Host, CertificateAuthorityData: config.CAData,
		TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
	}
	written.AuthInfos[account] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	written.Contexts[account] = &clientcmdapi.Context{Cluster: account, AuthInfo: account}
	written.CurrentContext = account
	content, err := clientcmd.Write(*written)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return content, nil
}

// awaitUser asks the API server for the user of a client until it knows the user:
// a token is issued shortly before every part of the API server accepts it.
func awaitUser(ctx context.Context, config *rest.Config) (string, error) {
	scheme, err := newScheme()
	if err != nil {
		return "", err
	}
	server, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return "", fmt.Errorf("connecting to the Karmada API server %s: %w", config.Host, err)
	}
	review := &authenticationv1.SelfSubjectReview{}
	var refused error
	const interval = 100 * time.Millisecond
	err = wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		refused = server.Create(ctx, review)
		return refused == nil, nil
	})
	if err != nil {
		return "", fmt.Errorf("the Karmada API server %s does not accept the token: %w", config.Host, errors.Join(err, refused))
	}
	return review.Status.UserInfo.Username, nil
}

// replaceFile writes a file atomically, readable only by its owner.
func replaceFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // has no effect after the rename
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
