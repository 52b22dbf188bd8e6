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

package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answer is what a request is answered with.
type answer struct {
	code   int
	header http.Header
	body   []byte
	// stream is set if a watch has been opened.
	stream *Stream
}

// errNotServed is the error for paths that the server does not know. It is no Status.
var errNotServed = errors.New("404 page not found")

func answered(code int, body []byte) *answer {
	return &answer{code: code, body: body, header: http.Header{"Content-Type": {"application/json"}}}
}

// encoded answers with any value.
func encoded(code int, value any) (*answer, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	return answered(code, body), nil
}

// failed answers with an error, as an API server does.
func failed(err error) *answer {
	if errors.Is(err, errNotServed) {
		return &answer{
			code: http.StatusNotFound, body: []byte(err.Error() + "\n"),
			header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}},
		}
	}
	status := statusOf(err)
	body, failure := json.Marshal(status)
	if failure != nil {
		body = []byte(failure.Error())
	}
	answered := answered(int(status.Code), body)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		answered.header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return answered
}

// statusOf describes an error.
func statusOf(err error) *metav1.Status {
	status := metav1.Status{Code: http.StatusInternalServerError, Message: err.Error()}
	if described := apierrors.APIStatus(nil); errors.As(err, &described) {
		status = described.Status()
	}
	status.Status = metav1.StatusFailure
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return &status
}

// methodNotSupported is the error for verbs that a resource does not have.
func methodNotSupported(r *request) error {
	return apierrors.NewMethodNotSupported(r.GroupResource(), r.Verb)
}

// response makes an answer one that an http.Client understands.
func (a *answer) response(to *http.Request) *http.Response {
	made := &http.Response{
		StatusCode: a.code, Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Request: to, ContentLength: int64(len(a.body)),
	}
	if a.stream == nil {
		made.Body = io.NopCloser(bytes.NewReader(a.body))
		return made
	}
	made.Body, made.ContentLength = a.stream.body, -1
	return made
}
