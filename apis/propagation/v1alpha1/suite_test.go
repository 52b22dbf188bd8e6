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

package v1alpha1_test

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/karmada-direct/karmada-direct/apis"
)

// server is a real API server with the CRDs of this project, and nothing else.
var server *rest.Config

func TestMain(m *testing.M) {
	code, err := runWithServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runWithServer(m *testing.M) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 0, fmt.Errorf("KUBEBUILDER_ASSETS must name the directory with kube-apiserver and etcd: run make test-integration, which builds them")
	}
	crds, err := apis.CRDs()
	if err != nil {
		return 0, err
	}
	// The server refuses a CRD whose CEL rules cost too much, so starting is the
	// first test.
	env := &envtest.Environment{CRDs: crds}
	server, err = env.Start()
	if err != nil {
		return 0, fmt.Errorf("starting an API server with the CRDs: %w", err)
	}
	defer func() {
		if stopErr := env.Stop(); stopErr != nil && err == nil {
			err = fmt.Errorf("stopping the API server: %w", stopErr)
		}
	}()
	return m.Run(), nil
}
