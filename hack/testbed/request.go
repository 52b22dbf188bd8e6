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

package testbed

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// Write is a write that a controller sent to the Karmada API server.
type Write struct {
	// At is the time of the response.
	At   time.Time
	Verb string
	// Resource includes the subresource: works/status.
	Resource  string
	Namespace string
	Name      string
	// Status is the HTTP status of the response.
	Status int
	// Bytes is the size of the request body.
	Bytes int
}

func (w Write) String() string {
	return fmt.Sprintf("%s %s %s %s/%s → %d", w.At.Format("15:04:05.000"), w.Verb, w.Resource, w.Namespace, w.Name, w.Status)
}

// Listing formats writes, one per line.
func Listing(writes []Write) string {
	lines := make([]string, 0, len(writes))
	for _, write := range writes {
		lines = append(lines, "  "+write.String())
	}
	return strings.Join(lines, "\n")
}

// isLease reports whether the write is a renewal of the leader's lease, which never
// stops, or the Event that names the new leader.
func (w Write) isLease() bool {
	return w.Resource == "leases" || w.Resource == "events" && strings.HasPrefix(w.Name, "karmada-direct.")
}

// describe extracts from a request what it writes.
func describe(verb, path string, body []byte) Write {
	written := Write{Verb: verb, Bytes: len(body)}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[min(2, len(parts)):] // api/v1
	} else {
		parts = parts[min(3, len(parts)):] // apis/group/version
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		written.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 0 {
		written.Resource = parts[0]
	}
	if len(parts) > 1 {
		written.Name = parts[1]
	}
	if len(parts) > 2 {
		written.Resource += "/" + parts[2]
	}
	if written.Resource == "subjectaccessreviews" {
		describeReview(&written, body)
	} else if written.Name == "" {
		var named struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(body, &named) == nil { // the name is not readable in protobuf
			written.Name = named.Metadata.Name
		}
	}
	return written
}

// describeReview extracts what a SubjectAccessReview asks. The namespace is that of
// the account, and the name is the permission.
func describeReview(written *Write, body []byte) {
	review := &authorizationv1.SubjectAccessReview{}
	if _, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, review); err != nil || review.Spec.ResourceAttributes == nil {
		return
	}
	account, action := strings.Split(review.Spec.User, ":"), review.Spec.ResourceAttributes
	written.Namespace = account[max(0, len(account)-2)]
	written.Name = strings.TrimSuffix(fmt.Sprintf("%s %s/%s", action.Verb, action.Resource, action.Name), "/")
}
