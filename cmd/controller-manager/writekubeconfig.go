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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenSecret is the Secret on the Karmada API server that holds the token of
// the controller's ServiceAccount.
const tokenSecret = "karmada-direct-token" //nolint:gosec // the name of a Secret, not a secret

func newWriteKubeconfigCommand(options *options) *cobra.Command {
	timeout := time.Minute
	output := ""
	command := &cobra.Command{
		Use:   "write-kubeconfig",
		Short: "Write a kubeconfig that holds no more rights than the controller needs",
		Long: `Writes a kubeconfig for the ServiceAccount that "install-rbac" makes, with the
address and the CA of the kubeconfig that this command is given, and the
ServiceAccount's own token. The token lasts as long as the Secret
karmada-direct-token on the Karmada API server, which this command makes where
it is missing: who deletes that Secret takes all rights from the controller,
until this command is run again.`,
		Example: `  controller-manager write-kubeconfig --kubeconfig admin.kubeconfig --output controller.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output == "" {
				return errors.New("--output: want the path of the kubeconfig to write")
			}
			config, err := options.restConfig()
			if err != nil {
				return err
			}
			server, err := options.connect()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			token, err := obtainToken(ctx, server, options.leaseNamespace)
			if err != nil {
				return err
			}
			return writeKubeconfig(ctx, config, token, output, command.OutOrStdout())
		},
	}
	command.Flags().StringVar(&output, "output", "", "Path of the kubeconfig to write.")
	addNamespaceFlag(command, options)
	command.Flags().DurationVar(&timeout, "timeout", timeout, "How long to wait for the token.")
	return command
}

// obtainToken returns the token of the controller's ServiceAccount.
func obtainToken(ctx context.Context, server client.Client, namespace string) (string, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: tokenSecret,
			Annotations: map[string]string{corev1.ServiceAccountNameKey: account},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	// Two replicas may start at once.
	if err := server.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("creating Secret %s/%s on the Karmada API server: %w", namespace, tokenSecret, err)
	}
	// kube-controller-manager fills it in, which every Karmada has beside its API
	// server; and deletes it at once when there is no such ServiceAccount.
	const interval = 100 * time.Millisecond
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		err := server.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		if apierrors.IsNotFound(err) {
			return false, fmt.Errorf("it was deleted; is there a ServiceAccount %s/%s? Run install-rbac first", namespace, account)
		}
		return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0, err
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the token in Secret %s/%s of the Karmada API server: %w", namespace, tokenSecret, err)
	}
	return string(secret.Data[corev1.ServiceAccountTokenKey]), nil
}

// writeKubeconfig writes a kubeconfig that differs from a given one in who its
// user is, once the API server knows that user.
func writeKubeconfig(ctx context.Context, admin *rest.Config, token, path string, out io.Writer) error {
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token
	user, err := awaitUser(ctx, config)
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil { // the files may not be where the kubeconfig goes
		return fmt.Errorf("reading the CA of the Karmada API server: %w", err)
	}
	cluster := &clientcmdapi.Cluster{
		Server: admin.Host, CertificateAuthorityData: config.CAData,
		TLSServerName: config.ServerName, InsecureSkipTLSVerify: config.Insecure,
	}
	written := clientcmdapi.NewConfig()
	written.Clusters[account] = cluster
	written.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token}
	written.Contexts[account] = &clientcmdapi.Context{Cluster: account, AuthInfo: account}
	written.CurrentContext = account
	data, err := clientcmd.Write(*written)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	if err := replaceFile(path, data); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	fmt.Fprintf(out, "%s written for %s at %s\n", path, user, admin.Host)
	return nil
}

// awaitUser asks the API server whom it takes a client for, until it knows it:
// a token is issued a moment before every part of the API server accepts it.
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
		return "", fmt.Errorf("the Karmada API server %s does not take the token: %w", config.Host, errors.Join(err, refused))
	}
	return review.Status.UserInfo.Username, nil
}

// replaceFile writes a file whole or not at all, for its owner alone.
func replaceFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".kubeconfig-") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // of no effect once it is renamed
	_, err = temporary.Write(data)
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}
