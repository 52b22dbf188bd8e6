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
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenOf describes the token to request.
type tokenOf struct {
	account  types.NamespacedName
	anchor   *authenticationv1.BoundObjectReference
	lifetime time.Duration
}

// requestToken requests a token, and returns it once the API server accepts it as
// that of the account.
func requestToken(ctx context.Context, server client.Client, config *rest.Config, wanted tokenOf) (string, error) {
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.account.Namespace, Name: wanted.account.Name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(wanted.lifetime / time.Second)), BoundObjectRef: wanted.anchor,
	}}
	if err := server.SubResource("token").Create(ctx, owner, request); err != nil {
		return "", fmt.Errorf("requesting a token for ServiceAccount %s of the Karmada API server, which install-rbac creates: %w", wanted.account, err)
	}
	own := rest.AnonymousClientConfig(config)
	own.BearerToken = request.Status.Token
	user, err := awaitUser(ctx, own)
	if err != nil {
		return "", err
	}
	if want := "system:serviceaccount:" + wanted.account.Namespace + ":" + wanted.account.Name; user != want {
		return "", fmt.Errorf("the Karmada API server takes the token of %s for that of %s", want, user)
	}
	return request.Status.Token, nil
}

// claims are the claims of a token.
type claims struct {
	Subject string `json:"sub"`
	Issued  int64  `json:"iat"`
	Expires int64  `json:"exp"`
	Bound   struct {
		Secret *struct {
			Name string    `json:"name"`
			UID  types.UID `json:"uid"`
		} `json:"secret"`
	} `json:"kubernetes.io"`
}

// readClaims reads the claims of the token in a file. Only the API server can
// verify them.
func readClaims(file string) (claims, error) {
	read := claims{}
	token, err := os.ReadFile(file)
	if err != nil {
		return read, fmt.Errorf("reading the token: %w", err)
	}
	parts := strings.Split(strings.TrimSpace(string(token)), ".")
	if len(parts) != 3 {
		return read, fmt.Errorf("%s does not contain a ServiceAccount token", file)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, &read)
	}
	if err != nil {
		return read, fmt.Errorf("%s does not contain a ServiceAccount token: %w", file, err)
	}
	if _, err := read.wanted(); err != nil {
		return read, fmt.Errorf("%s: %w", file, err)
	}
	return read, nil
}

// wanted describes the token that replaces this one.
func (c claims) wanted() (tokenOf, error) {
	name, found := strings.CutPrefix(c.Subject, "system:serviceaccount:")
	namespace, name, cut := strings.Cut(name, ":")
	if !found || !cut || c.Expires <= c.Issued {
		return tokenOf{}, fmt.Errorf("the token of %q, from %d to %d, cannot be renewed", c.Subject, c.Issued, c.Expires)
	}
	wanted := tokenOf{
		account:  types.NamespacedName{Namespace: namespace, Name: name},
		lifetime: time.Duration(c.Expires-c.Issued) * time.Second,
	}
	if bound := c.Bound.Secret; bound != nil {
		wanted.anchor = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: bound.Name, UID: bound.UID}
	}
	return wanted, nil
}

// due returns when to renew: after a quarter of the token's lifetime, so that an
// outage of the API server may last for the other three quarters.
func (c claims) due() time.Time {
	return time.Unix(c.Issued+(c.Expires-c.Issued)/4, 0)
}

// tokenRetry is the pause after a failed renewal, and the minimum between two.
const tokenRetry = time.Minute

// tokenRenewal renews the token in a file. The client reads that file again
// every minute.
type tokenRenewal struct {
	file   string
	config *rest.Config
	server client.Client
	log    logr.Logger
}

// renewToken adds the renewal to a manager if it is enabled.
func renewToken(mgr ctrl.Manager, config *rest.Config, options *options) error {
	if !options.renewToken {
		return nil
	}
	if config.BearerTokenFile == "" {
		return errors.New("--renew-token: the kubeconfig has no token in a file; use a kubeconfig from write-kubeconfig")
	}
	if _, err := readClaims(config.BearerTokenFile); err != nil {
		return fmt.Errorf("--renew-token: %w", err)
	}
	renewal := &tokenRenewal{file: config.BearerTokenFile, config: config, server: mgr.GetClient(), log: mgr.GetLogger().WithName("token")}
	if err := mgr.Add(renewal); err != nil {
		return fmt.Errorf("adding the renewal of the token: %w", err)
	}
	return nil
}

// NeedLeaderElection tells the manager that every replica renews its own token.
func (*tokenRenewal) NeedLeaderElection() bool { return false }

// Start renews the token until ctx is done.
func (r *tokenRenewal) Start(ctx context.Context) error {
	for {
		pause := tokenRetry
		if current, err := readClaims(r.file); err == nil {
			pause = max(time.Until(current.due()), 0)
		}
		if !waits(ctx, pause) {
			return nil
		}
		if err := r.renew(ctx); err != nil && ctx.Err() == nil {
			r.log.Error(err, "The token was not renewed; trying again", "in", tokenRetry.String())
		}
		if !waits(ctx, tokenRetry) {
			return nil
		}
	}
}

// waits reports whether a duration passed before ctx was done.
func waits(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// renew replaces the current token with a new one.
func (r *tokenRenewal) renew(ctx context.Context) error {
	current, err := readClaims(r.file)
	if err != nil {
		return err
	}
	wanted, err := current.wanted()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tokenRetry)
	defer cancel()
	token, err := requestToken(ctx, r.server, r.config, wanted)
	if err != nil {
		return err
	}
	if err := replaceFile(r.file, []byte(token)); err != nil {
		return fmt.Errorf("writing the token: %w", err)
	}
	r.log.Info("Renewed the token", "of", current.Subject)
	return nil
}
