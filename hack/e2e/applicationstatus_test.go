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
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// applicationStatus contains the fields of an Application's status that tests use.
type applicationStatus struct {
	Sync struct {
		Status   string `json:"status"`
		Revision string `json:"revision"`
	} `json:"sync"`
	Health struct {
		Status string `json:"status"`
	} `json:"health"`
	OperationState struct {
		Phase     string `json:"phase"`
		Message   string `json:"message"`
		StartedAt string `json:"startedAt"`
	} `json:"operationState"`
	Resources []struct {
		Kind   string `json:"kind"`
		Name   string `json:"name"`
		Status string `json:"status"`
		Health struct {
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"health"`
	} `json:"resources"`
	History []struct {
		Revision string `json:"revision"`
	} `json:"history"`
	Conditions []map[string]any `json:"conditions"`
}

func (s applicationStatus) String() string {
	text := fmt.Sprintf("%s, %s at %.8s, operation %s: %s", s.Health.Status, s.Sync.Status, s.Sync.Revision, s.OperationState.Phase, s.OperationState.Message)
	for _, resource := range s.Resources {
		text += fmt.Sprintf("\n  %s %s: %s, %s %s", resource.Kind, resource.Name, resource.Status, resource.Health.Status, resource.Health.Message)
	}
	for _, condition := range s.Conditions {
		text += fmt.Sprintf("\n  %v: %v", condition["type"], condition["message"])
	}
	return text
}

func (a *Application) sees(object *unstructured.Unstructured) {
	status, err := statusOf(object)
	if err != nil || status.Sync.Revision == "" {
		return // the status does not describe an Application yet
	}
	a.mu.Lock()
	confirmed := a.confirmed[status.Sync.Revision]
	states := a.seen[status.Sync.Revision]
	if len(states) == 0 || states[len(states)-1].String() != status.String() {
		a.seen[status.Sync.Revision] = append(states, status)
	}
	a.mu.Unlock()
	// Before the Application is synced, its health is that of the previous state.
	if status.Health.Status != "Healthy" || status.Sync.Status != "Synced" || confirmed == nil || object.GetDeletionTimestamp() != nil {
		return
	}
	if err := confirmed(context.Background()); err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lies = append(a.lies, fmt.Errorf("at commit %.8s: %w", status.Sync.Revision, err))
	}
}

// messageOf returns the message of the health check for the last resource of a kind.
func (s applicationStatus) messageOf(kind string) (message string) {
	for _, resource := range s.Resources {
		if resource.Kind == kind {
			message = resource.Health.Message
		}
	}
	return message
}

func statusOf(object *unstructured.Unstructured) (applicationStatus, error) {
	fields, _, _ := unstructured.NestedMap(object.Object, "status")
	status := applicationStatus{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
		return status, fmt.Errorf("reading the Application's status: %w", err)
	}
	return status, nil
}

// status reads the current status.
func (a *Application) status(ctx context.Context) (applicationStatus, error) {
	object := a.object()
	if err := a.host.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return applicationStatus{}, fmt.Errorf("reading the Application: %w", err)
	}
	return statusOf(object)
}

// Becomes waits until the current commit is synced and has the given health.
func (a *Application) Becomes(health string) applicationStatus {
	a.ns.T.Helper()
	return a.becomes(health+" at the commit", func(status applicationStatus) bool {
		return status.Sync.Revision == a.commit && status.Sync.Status == "Synced" && status.Health.Status == health
	})
}

func (a *Application) becomes(what string, is func(applicationStatus) bool) (latest applicationStatus) {
	a.ns.T.Helper()
	a.ns.Eventually("the Application is "+what, func(ctx context.Context) error {
		status, err := a.status(ctx)
		if err != nil {
			return err
		}
		if latest = status; !is(status) {
			return fmt.Errorf("it is %v", status)
		}
		return nil
	})
	return latest
}

// wasFirst checks that the Application had the given health at some time while the
// current commit was synced.
func (a *Application) wasFirst(health string) {
	a.ns.T.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, status := range a.seen[a.commit] {
		if status.Sync.Status == "Synced" && status.Health.Status == health {
			return
		}
	}
	a.ns.T.Errorf("at commit %.8s the Application was never %s, but %v", a.commit, health, a.seen[a.commit])
}
