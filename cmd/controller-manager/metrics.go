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
	"net/http"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsOptions define how metrics are served. With --metrics-secure, they are
// served over TLS, to clients that the host cluster allows to get /metrics: the
// host cluster has the account of Prometheus, which the Karmada API server does not
// know.
func (o *options) metricsOptions() (metricsserver.Options, error) {
	served := metricsserver.Options{BindAddress: o.metricsAddress}
	if !o.metricsSecure || o.metricsAddress == "0" {
		return served, nil
	}
	config, err := o.hostConfig()
	if err != nil {
		return served, err
	}
	scheme, err := newScheme()
	if err != nil {
		return served, err
	}
	host, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return served, fmt.Errorf("connecting to the host cluster %s: %w", config.Host, err)
	}
	served.SecureServing = true
	served.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		return func(log logr.Logger, handler http.Handler) (http.Handler, error) {
			return &reviewedHandler{host: host, handler: handler, log: log}, nil
		}, nil
	}
	if o.metricsCert != "" {
		// Both are read again when they change.
		served.CertDir, served.CertName = filepath.Dir(o.metricsCert), filepath.Base(o.metricsCert)
		if served.KeyName, err = filepath.Rel(served.CertDir, o.metricsKey); err != nil {
			return served, fmt.Errorf("--metrics-tls-private-key-file: %w", err)
		}
	}
	return served, nil
}

// hostConfig returns the configuration of clients of the cluster that the Pod runs
// in.
func (o *options) hostConfig() (*rest.Config, error) {
	if o.hostKubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--metrics-secure: outside of a Pod, set --metrics-host-kubeconfig to the cluster that authorizes the clients of the metrics: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.hostKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("loading --metrics-host-kubeconfig: %w", err)
	}
	return config, nil
}

// reviewedHandler serves clients that the host cluster authenticates and allows to
// read the path. The handler of controller-runtime would add the libraries of an
// API server, for rules that a path does not need.
type reviewedHandler struct {
	host    client.Client
	handler http.Handler
	log     logr.Logger
}

// ServeHTTP implements http.Handler.
func (h *reviewedHandler) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	token, found := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !found || token == "" {
		http.Error(response, "Unauthorized", http.StatusUnauthorized)
		return
	}
	user, err := h.authenticate(request.Context(), token)
	if err != nil {
		h.log.Error(err, "Reviewing a token")
		http.Error(response, "Authentication failed", http.StatusInternalServerError)
		return
	}
	if user == nil {
		http.Error(response, "Unauthorized", http.StatusUnauthorized)
		return
	}
	switch allowed, err := h.authorize(request, user); {
	case err != nil:
		h.log.Error(err, "Reviewing the access of a user", "user", user.Username)
		http.Error(response, "Authorization failed", http.StatusInternalServerError)
	case !allowed:
		http.Error(response, fmt.Sprintf("Forbidden: user %q must be allowed to get %s in the host cluster", user.Username, request.URL.Path), http.StatusForbidden)
	default:
		h.handler.ServeHTTP(response, request)
	}
}

// authenticate returns the user of a token; nil if the host cluster does not know
// the token.
func (h *reviewedHandler) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := h.host.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking the host cluster: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, nil //nolint:nilnil // nobody is an answer
	}
	if review.Status.User.Username == "" {
		return nil, errors.New("the host cluster knows the token and names no user")
	}
	return &review.Status.User, nil
}

func (h *reviewedHandler) authorize(request *http.Request, user *authenticationv1.UserInfo) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, value := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: request.URL.Path, Verb: "get"},
	}}
	if err := h.host.Create(request.Context(), review); err != nil {
		return false, fmt.Errorf("asking the host cluster: %w", err)
	}
	return review.Status.Allowed, nil
}
