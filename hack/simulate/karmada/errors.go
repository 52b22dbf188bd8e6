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

package karmada

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errNoRoute is what clients say when nothing answers at an address.
var errNoRoute = errors.New("connect: connection refused")

func refused(verb, address string) error {
	return fmt.Errorf("%s %q: dial tcp: %w", verb, "https://"+address, errNoRoute)
}

// lost is what clients say when a connection ends before the answer.
func lost(verb, address string) error {
	return fmt.Errorf("%s %q: %w", verb, "https://"+address, io.ErrUnexpectedEOF)
}

// errUnanswered is the error of a request that a member does not answer.
var errUnanswered = fmt.Errorf("the member does not answer: %w", context.DeadlineExceeded)

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

// notServed is the answer of an API server to a request for a resource that it does
// not know.
func notServed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource",
	}}
}

func (k Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Plural}
}
