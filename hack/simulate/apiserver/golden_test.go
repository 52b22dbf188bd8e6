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

package apiserver_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/karmada-direct/karmada-direct/apis"
	"github.com/karmada-direct/karmada-direct/hack/simulate/apiserver"
)

// golden has what a kube-apiserver answered to the script.
const golden = "testdata/kube-apiserver.txt"

var record = flag.Bool("record", false, "write what a kube-apiserver answers to "+golden)

// TestAnswersLikeKubeAPIServer compares the answers of the simulated server with those
// that a kube-apiserver gave.
func TestAnswersLikeKubeAPIServer(t *testing.T) {
	t.Parallel()
	server, err := apiserver.New(apiserver.Options{Kinds: append(apiserver.BuiltinKinds(), apiserver.Kind{
		Group: "authorization.k8s.io", Versions: []string{"v1"}, Kind: "SubjectAccessReview", Plural: "subjectaccessreviews",
		Answer: func(_ string, review *unstructured.Unstructured) error {
			return unstructured.SetNestedField(review.Object, false, "status", "allowed")
		},
	})})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, run(t, &http.Client{Transport: server.Immediate("user")}, "http://simulated"))
}

func compare(t *testing.T, got string) {
	t.Helper()
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("answers (-recorded +now):\n%s", diff)
	}
}

// run performs the script and returns the answers.
func run(t *testing.T, client *http.Client, host string) string {
	t.Helper()
	s := newTranscript(t, client, host)
	s.perform(furniture)
	s.install()
	opened := []*watching{
		s.watch(step{what: "watch the kind", path: gadgets + "?watch=1&resourceVersion=" + s.now()}),
		s.watch(step{what: "watch a label", path: gadgets + "?watch=1&labelSelector=tier%3Dfront&resourceVersion=" + s.now()}),
		s.watch(step{what: "watch all names but one", path: gadgets + "?watch=1&fieldSelector=metadata.name%21%3Dweb&resourceVersion=" + s.now()}),
		s.watch(step{what: "watch the other version everywhere", path: gadgetsV2 + "?watch=1&resourceVersion=" + s.now()}),
		s.watch(step{
			what: "watch metadata", path: gadgets + "?watch=1&resourceVersion=" + s.now(),
			accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
		}),
	}
	for _, part := range [][]step{writes, patches, deletions, others, propagations} {
		s.perform(part)
	}
	s.perform([]step{{what: "mark the end", method: http.MethodPost, path: gadgets, body: gadget(`"name":"zzz","labels":{"tier":"front"}`, `,"spec":{"size":"small"}`)}})
	for _, watching := range opened {
		s.collect(watching, `"zzz"`)
	}
	s.collect(s.watch(step{
		what: "watch with initial events",
		path: gadgets + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	}), "k8s.io/initial-events-end")
	s.collect(s.watch(step{what: "watch without a version", path: gadgets + "?watch=1"}), `"zzz"`)
	s.perform(versions)
	return s.text.String()
}

// install installs the CRDs of the script.
func (s *transcript) install() {
	s.t.Helper()
	installed, err := apis.CRDs()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, crd := range append(installed, gadgetCRD()) {
		crd.APIVersion, crd.Kind = apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition"
		body, err := json.Marshal(crd)
		if err != nil {
			s.t.Fatal(err)
		}
		if code, answer := s.ask(&step{method: http.MethodPost, path: crds, body: string(body)}); code != http.StatusCreated {
			s.t.Fatalf("installing %s: %s", crd.Name, answer)
		}
		list := "/apis/" + crd.Spec.Group + "/" + crd.Spec.Versions[0].Name + "/" + crd.Spec.Names.Plural
		for tries := 0; ; tries++ {
			code, answer := s.ask(&step{method: http.MethodGet, path: list})
			if code == http.StatusOK {
				break
			}
			if tries == 200 {
				s.t.Fatalf("%s is not served: %s", crd.Name, answer)
			}
			<-time.After(50 * time.Millisecond)
		}
	}
}

// now returns the version of the Gadgets.
func (s *transcript) now() string {
	s.t.Helper()
	list := struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}{}
	_, answer := s.ask(&step{method: http.MethodGet, path: gadgets})
	if err := json.Unmarshal(answer, &list); err != nil {
		s.t.Fatal(err)
	}
	return list.Metadata.ResourceVersion
}
